"""Reads what commands are given: files, and the agent."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentflow_eval.cli._app import Stop

if TYPE_CHECKING:
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalCase, EvalSet


def loaded(
    evalsets: Iterable[str], config_path: str | None, *, only_sets: bool = False
) -> tuple[list[tuple[str, EvalSet]], EvalConfig]:
    """Every file, or one error that lists the problems of all of them; ``only_sets``: not to be run with the config."""
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalSet
    from agentflow_eval.errors import LoadError

    problems: list[str] = []
    sets: list[tuple[str, EvalSet]] = []
    config: EvalConfig | None = EvalConfig.default()
    with warnings_shown():
        if config_path is not None:
            config = None
            try:
                config = EvalConfig.from_file(config_path)
                problems += missing_templates(config_path, config)
            except LoadError as exc:
                problems.append(str(exc))
        for path in evalsets:
            try:
                sets.append((path, EvalSet.from_file(path)))
            except LoadError as exc:
                problems.append(str(exc))
    if config is not None and not only_sets:
        problems += [problem for path, eval_set in sets for problem in unknown_names_in(path, eval_set, [config])]
    if config is None or problems:
        raise Stop("\n".join(problems))
    return sets, config


def unknown_names_in(path: str, eval_set: EvalSet, configs: Sequence[EvalConfig]) -> list[str]:
    """Targets, checks and fixtures that a set names and none of the configs defines."""
    from agentflow_eval.engine.names import Names, unknown_names

    problems = unknown_names(eval_set.eval_cases, [Names(config) for config in configs])
    return [f"{path}: {place}: {message}" for place, message in problems]


def missing_templates(config_path: str, config: EvalConfig) -> list[str]:
    """Report templates and prompts that a config names and that are not there."""
    named: dict[str, str | None] = {
        f"reporter.templates[{index}]": path for index, path in enumerate(config.reporter.templates)
    }
    named |= {
        f"criteria.{slot}.prompt": getattr(own, "prompt", None) for slot, own in config.criteria.enabled().items()
    }
    return [
        f"{config_path}: {place}: there is no file {path!r} (working directory: {Path.cwd()})"
        for place, path in named.items()
        if path is not None and not Path(path).is_file()
    ]


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Warnings as one line each on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"warning: {message}", err=True)


def looks_like_config(path: str) -> bool:
    """By its keys where the file can be read, else by its name."""
    import json

    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalSet

    try:
        content = json.loads(Path(path).read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and content.keys() - {"$schema"}:
        only_config = EvalConfig.model_fields.keys() - EvalSet.model_fields.keys()
        only_set = EvalSet.model_fields.keys() - EvalConfig.model_fields.keys()
        return len(content.keys() & only_config) > len(content.keys() & only_set)
    return "config" in path.lower()


def agent_of(agent: str | None, config: EvalConfig) -> Any:
    """The agent of the option or of the config; None when the config has an endpoint."""
    from agentflow_eval.adapters._load import import_agent

    if agent is not None and not agent.strip():
        raise Stop("--agent is empty; give module:attribute, or leave the option out")
    spec = agent or config.agent
    if spec is None and config.endpoint is None:
        raise Stop('no agent: give --agent module:attribute, or "agent" or "endpoint" in the config')
    return None if spec is None else import_agent(spec)


def select(eval_set: EvalSet, ids: Sequence[str], names: Sequence[str], tags: Sequence[str]) -> EvalSet:
    if not (ids or names or tags):
        return eval_set

    def wanted(case: EvalCase) -> bool:
        by_id = not ids or case.eval_id in ids
        by_name = not names or case.name in names
        return by_id and by_name and set(tags) <= set(case.tags)

    return eval_set.model_copy(update={"eval_cases": [case for case in eval_set.eval_cases if wanted(case)]})


def check_selection(sets: Sequence[EvalSet], ids: Sequence[str], names: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether every option selects something; says which does not, with the values that would."""
    cases = [case for eval_set in sets for case in eval_set.eval_cases]
    if not cases:
        click.echo("no cases: the eval set is empty; add cases to its eval_cases", err=True)
        return False
    known = {
        "id": (ids, [case.eval_id for case in cases]),
        "name": (names, [case.name for case in cases if case.name]),
        "tag": (tags, [tag for case in cases for tag in case.tags]),
    }
    problems = [
        f"  no case has the {what} {value!r}{_nearest(value, what, there)}"
        for what, (asked, there) in known.items()
        for value in asked
        if value not in there
    ]
    if not problems and not any(len(select(eval_set, ids, names, tags)) for eval_set in sets):
        problems = ["  no case meets all of the options together"]
    for line in ["no cases selected", *problems] if problems else []:
        click.echo(line, err=True)
    return not problems


def _nearest(value: str, what: str, there: Sequence[str]) -> str:
    from agentflow_eval.errors import did_you_mean

    unique = list(dict.fromkeys(there))
    near = did_you_mean(value, unique)
    shown = ", ".join(unique[:20]) + (", ..." if len(unique) > 20 else "")
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{hint} (known {what}s: {shown or 'none'})"
