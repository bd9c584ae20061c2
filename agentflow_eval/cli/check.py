"""``check``: files, and whether they fit an agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from agentflow_eval.cli._app import FAILED, NOTHING_TO_RUN, PASSED, commands
from agentflow_eval.cli._inputs import (
    agent_of,
    looks_like_config,
    missing_templates,
    unknown_names_in,
    warnings_shown,
)

if TYPE_CHECKING:
    from agentflow_eval.config import EvalConfig


@commands.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--agent", metavar="MODULE:ATTR", help="Compare the eval sets with this agent's tools and nodes too.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
def check(files: tuple[str, ...], agent: str | None, strict: bool) -> int:
    """Validate eval set and config files; shows every problem of every file. Imports no agent without --agent.

    With configs among the files, the targets, checks and fixtures that eval sets name have to be in one of them, and
    --agent looks for criteria without data and expectations that no criterion reads.
    """
    configs = _readable_configs(files)
    broken = [path for path in files if not _is_valid(path, configs)]
    if broken or agent is None:
        return NOTHING_TO_RUN if broken else PASSED
    return FAILED if _lint([path for path in files if not looks_like_config(path)], configs, agent, strict) else PASSED


def _is_valid(path: str, configs: Sequence[EvalConfig]) -> bool:
    """Whether a file can be used; prints what it holds, or every problem."""
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalSet
    from agentflow_eval.errors import LoadError
    from agentflow_eval.reporters._words import count

    with warnings_shown():
        try:
            if looks_like_config(path):
                config = EvalConfig.from_file(path)
                problems = missing_templates(path, config)
                summary = f"config, criteria: {', '.join(config.criteria.enabled()) or 'none'}"
            else:
                eval_set = EvalSet.from_file(path)
                turns = sum(len(case.conversation) for case in eval_set)
                problems = unknown_names_in(path, eval_set, configs) if configs else []
                cases = count(len(eval_set), "case")
                summary = f"eval set {eval_set.eval_set_id!r}, {cases}, {count(turns, 'turn')}"
        except LoadError as exc:
            problems, summary = [str(exc)], ""
    if problems:
        click.echo("\n".join(problems), err=True)
    else:
        click.echo(f"{path}: ok ({summary})")
    return not problems


def _lint(paths: Sequence[str], configs: Sequence[EvalConfig], agent: str, strict: bool) -> bool:
    """Compares eval sets with an agent and prints what does not fit; whether any of it is an error."""
    from agentflow_eval.adapters import adapt, shape_of
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalSet
    from agentflow_eval.lint import lint

    options = next((config.agent_options for config in configs if config.agent_options), None)
    target = adapt(agent_of(agent, EvalConfig()), **(options.model_dump() if options else {}))
    shape = shape_of(target)
    known = {"tools": shape.tools, "nodes": shape.nodes, "edges": shape.edges}
    unknown = [name for name, value in known.items() if value is None]
    if unknown:
        click.echo(f"note: {' and '.join(unknown)} of {agent} cannot be known before it runs; not compared")
    found = False
    for path in paths:
        eval_set = EvalSet.from_file(path)
        found_by = [lint(eval_set, shape, config) for config in configs] or [lint(eval_set, shape)]
        remarks = dict.fromkeys(remark for found_here in found_by for remark in found_here)
        for remark in remarks:
            place = f": {remark.place}" if remark.place else ""
            click.echo(f"{path}{place}: {remark.level}: {remark.message}", err=True)
        found = found or any(strict or remark.level == "error" for remark in remarks)
        if not remarks:
            click.echo(f"{path}: fits {agent}")
    return found


def _readable_configs(files: Iterable[str]) -> list[EvalConfig]:
    """The configs among the files; none when one of them cannot be used, so that nothing else can be blamed for it."""
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.errors import LoadError

    try:
        return [EvalConfig.from_file(path) for path in files if looks_like_config(path)]
    except LoadError:
        return []
