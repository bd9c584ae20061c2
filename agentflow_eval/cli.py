"""The command line.

Exit codes: 0 the gate passed; 1 cases failed or broke, or a report could not be written; 2 nothing to run: a bad file,
a bad option, no case selected, an agent that cannot be imported; 130 interrupted.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from agentflow_eval import __version__

if TYPE_CHECKING:
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalCase, EvalSet
    from agentflow_eval.evaluator import AgentEvaluator
    from agentflow_eval.result import EvalReport

PASSED, FAILED, NOTHING_TO_RUN, INTERRUPTED = 0, 1, 2, 130

Command = TypeVar("Command", bound=Callable[..., Any])


class Stop(click.ClickException):
    """Ends the command with a message and exit code 2."""

    exit_code = NOTHING_TO_RUN

    def show(self, file: Any = None) -> None:  # noqa: ARG002  # click's signature
        """Prints the message, one line for each problem."""
        click.echo(self.format_message(), err=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; None takes the arguments of the process.

    Returns:
        The exit code.
    """
    from agentflow_eval.errors import AgentflowEvalError, ReportError

    try:
        code = commands.main(None if argv is None else list(argv), prog_name="agentflow-eval", standalone_mode=False)
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except AgentflowEvalError as exc:
        click.echo(f"error: {exc}", err=True)
        return FAILED if isinstance(exc, ReportError) else NOTHING_TO_RUN
    return code if isinstance(code, int) else PASSED


def script() -> NoReturn:
    """The command as a process."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:  # who started the process has closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for good
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
    except OSError as exc:  # standard output is full, or its reader went away
        if not isinstance(exc, BrokenPipeError):
            click.echo(f"error: {exc}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    _leave(code)


def _leave(code: int) -> NoReturn:
    stuck = [thread for thread in threading.enumerate() if thread.is_alive() and not thread.daemon]
    if len(stuck) > 1:  # an agent's thread that hangs must not keep the command alive
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentflow-eval")
def commands() -> None:
    """Evaluate AI agents: eval sets and configs in JSON, reports for people and CI."""


def selection(command: Command) -> Command:
    """The options that select cases."""
    options = [
        click.option("--id", "ids", multiple=True, metavar="ID", help="Only the case with this id; repeatable."),
        click.option("--name", "names", multiple=True, metavar="NAME", help="Only cases of this name; repeatable."),
        click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag; all, if repeated."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


# run


class _Seconds(click.FloatRange):
    """A number of seconds that ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        return seconds if math.isfinite(seconds) else self.fail(f"{value!r} is not a finite number.", param, ctx)


@commands.command()
@click.argument("evalsets", nargs=-1, required=True, metavar="EVALSET...")
@click.option("--config", "config_path", metavar="FILE", help="How to score. Left out: EvalConfig.default().")
@click.option("--agent", metavar="MODULE:ATTR", help="The agent; the config can name it too.")
@selection
@click.option("-j", "--parallel", type=click.IntRange(min=1), metavar="N", help="Run N cases at once.")
@click.option("--timeout", type=_Seconds(min=0, min_open=True), metavar="SECONDS", help="Limit of one case.")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="Run each case N times.")
@click.option("--output-dir", metavar="DIR", help="Folder for the reports instead of the config's.")
@click.option("--json-output", metavar="FILE", help="Write the JSON report to this file too.")
@click.option("--junit-output", metavar="FILE", help="Write one JUnit file for all eval sets.")
@click.option("--no-report", is_flag=True, help="Write no report files.")
@click.option("--mock", is_flag=True, help="Run no agent: would a perfect run pass? Never exits with 0.")
@click.option("-v", "--verbose", is_flag=True, help="Show passed cases and every case as it ends.")
def run(
    evalsets: tuple[str, ...],
    config_path: str | None,
    agent: str | None,
    ids: tuple[str, ...],
    names: tuple[str, ...],
    tags: tuple[str, ...],
    json_output: str | None,
    junit_output: str | None,
    output_dir: str | None,
    **options: Any,
) -> int:
    """Run an agent through eval sets and report."""
    sets, config = _loaded(evalsets, config_path)
    config = _with_options(config, **options)
    selected = [(path, _select(eval_set, ids, names, tags)) for path, eval_set in sets]
    if not _check_selection([eval_set for _, eval_set in sets], ids, names, tags):
        _write_outputs(_empty_reports(selected), json_output, junit_output, config)
        return NOTHING_TO_RUN
    _warn_of_unread([eval_set for _, eval_set in selected], config)
    evaluator = _evaluator(agent, config)
    for path, eval_set in selected:
        evaluator.prepare(eval_set, source=path)
    _refuse_overwriting([eval_set for _, eval_set in selected], config)
    reports, all_written = _run_sets(evaluator, [item for item in selected if len(item[1])], output_dir)
    all_written = _write_outputs(reports, json_output, junit_output, config) and all_written
    if evaluator.stopped or any(report.interrupted for report in reports):
        return INTERRUPTED
    return PASSED if all_written and all(report.gate_passed for report in reports) else FAILED


def _loaded(
    evalsets: Iterable[str], config_path: str | None, *, only_sets: bool = False
) -> tuple[list[tuple[str, EvalSet]], EvalConfig]:
    """Every file, or one error that lists the problems of all of them; ``only_sets``: not to be run with the config."""
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalSet
    from agentflow_eval.errors import LoadError

    problems: list[str] = []
    sets: list[tuple[str, EvalSet]] = []
    config: EvalConfig | None = EvalConfig.default()
    with _warnings_shown():
        if config_path is not None:
            config = None
            try:
                config = EvalConfig.from_file(config_path)
                problems += _missing_templates(config_path, config)
            except LoadError as exc:
                problems.append(str(exc))
        for path in evalsets:
            try:
                sets.append((path, EvalSet.from_file(path)))
            except LoadError as exc:
                problems.append(str(exc))
    if config is not None and not only_sets:
        problems += [problem for path, eval_set in sets for problem in _unknown_names(path, eval_set, [config])]
    if config is None or problems:
        raise Stop("\n".join(problems))
    return sets, config


def _unknown_names(path: str, eval_set: EvalSet, configs: Sequence[EvalConfig]) -> list[str]:
    """Targets, checks and fixtures that a set names and none of the configs defines."""
    from agentflow_eval.engine.names import Names, unknown_names

    problems = unknown_names(eval_set.eval_cases, [Names(config) for config in configs])
    return [f"{path}: {place}: {message}" for place, message in problems]


def _warn_of_unread(sets: Iterable[EvalSet], config: EvalConfig) -> None:
    """Says which expectations are stated and read by no criterion."""
    from agentflow_eval.lint import unread

    for line in unread(sets, config):
        click.echo(f"warning: {line}", err=True)


def _missing_templates(config_path: str, config: EvalConfig) -> list[str]:
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
def _warnings_shown() -> Iterator[None]:
    """Warnings as one line each on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"warning: {message}", err=True)


def _with_options(
    config: EvalConfig,
    parallel: int | None,
    timeout: float | None,
    trials: int | None,
    no_report: bool,
    mock: bool,
    verbose: bool,
) -> EvalConfig:
    changes: dict[str, Any] = {}
    if parallel is not None:
        changes |= {"parallel": True, "max_concurrency": parallel}
    if timeout is not None:
        changes["timeout"] = timeout
    if trials is not None:
        changes["trials"] = trials
    if mock:
        changes["mock_mode"] = True
    if verbose:
        changes["verbose"] = True
    reporter: dict[str, Any] = {}
    if verbose or "verbose" not in config.reporter.model_fields_set:
        reporter["verbose"] = verbose
    if no_report:
        reporter |= {"json_report": False, "html": False, "junit_xml": False, "templates": []}
    changes["reporter"] = config.reporter.model_copy(update=reporter)
    return config.model_copy(update=changes)


def _select(eval_set: EvalSet, ids: Sequence[str], names: Sequence[str], tags: Sequence[str]) -> EvalSet:
    if not (ids or names or tags):
        return eval_set

    def wanted(case: EvalCase) -> bool:
        by_id = not ids or case.eval_id in ids
        by_name = not names or case.name in names
        return by_id and by_name and set(tags) <= set(case.tags)

    return eval_set.model_copy(update={"eval_cases": [case for case in eval_set.eval_cases if wanted(case)]})


def _check_selection(sets: Sequence[EvalSet], ids: Sequence[str], names: Sequence[str], tags: Sequence[str]) -> bool:
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
    if not problems and not any(len(_select(eval_set, ids, names, tags)) for eval_set in sets):
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


def _empty_reports(selected: Iterable[tuple[str, EvalSet]]) -> list[EvalReport]:
    from agentflow_eval.result import EvalReport

    return [EvalReport.create(s.eval_set_id, [], s.name, eval_set_file=path) for path, s in selected]


def _refuse_overwriting(sets: Sequence[EvalSet], config: EvalConfig) -> None:
    from agentflow_eval._files import safe_name

    reporter = config.reporter
    writes = reporter.json_report or reporter.html or reporter.junit_xml or bool(reporter.templates)
    if not (reporter.enabled and writes) or reporter.timestamp_files:
        return
    names = [safe_name(eval_set.eval_set_id) for eval_set in sets if len(eval_set)]
    for name in names:
        if names.count(name) > 1:
            raise Stop(
                f"two eval sets would write to the report files {name}.*: give each its own eval_set_id, or leave "
                "reporter.timestamp_files on"
            )


def _evaluator(agent: str | None, config: EvalConfig) -> AgentEvaluator:
    from agentflow_eval.evaluator import AgentEvaluator

    if config.mock_mode or (not agent and config.agent is None and (config.endpoints or config.targets)):
        return AgentEvaluator(config=config)
    return AgentEvaluator(_agent_of(agent, config), config=config)


def _agent_of(agent: str | None, config: EvalConfig) -> Any:
    """The agent of the option or of the config; None when the config has an endpoint."""
    from agentflow_eval.adapters._load import import_agent

    if agent is not None and not agent.strip():
        raise Stop("--agent is empty; give module:attribute, or leave the option out")
    spec = agent or config.agent
    if spec is None and config.endpoint is None:
        raise Stop('no agent: give --agent module:attribute, or "agent" or "endpoint" in the config')
    return None if spec is None else import_agent(spec)


def _run_sets(
    evaluator: AgentEvaluator, sets: Sequence[tuple[str, EvalSet]], output_dir: str | None
) -> tuple[list[EvalReport], bool]:
    """The report of each set, and whether every report file was written; sets after an interruption are not run."""
    import asyncio

    reports: list[EvalReport] = []
    all_written = True
    for number, (path, eval_set) in enumerate(sets, start=1):
        with _warnings_shown():
            try:
                report = evaluator.run_sync(eval_set, source=path, output_dir=output_dir)
            except (asyncio.CancelledError, KeyboardInterrupt):
                if evaluator.report is None:
                    raise KeyboardInterrupt from None
                report = evaluator.report
        reports.append(report)
        output = evaluator.reporter_output
        if output is not None:
            all_written = all_written and not output.has_errors
            for file in output.generated_files:
                click.echo(f"report: {file}", err=True)
        if evaluator.stopped or report.interrupted:
            reports += [_not_run(path, eval_set, evaluator.config) for path, eval_set in sets[number:]]
            break
    return reports, all_written


def _not_run(path: str, eval_set: EvalSet, config: EvalConfig) -> EvalReport:
    from agentflow_eval.engine.case import unrun
    from agentflow_eval.result import ErrorKind, EvalReport, Outcome

    why = "the run was interrupted before this case"
    results = [unrun(case, Outcome.ERROR, error_kind=ErrorKind.NOT_RUN, error=why) for case in eval_set]
    values: dict[str, Any] = {"interrupted": True, "mock": config.mock_mode, "min_pass_rate": config.min_pass_rate}
    return EvalReport.create(eval_set.eval_set_id, results, eval_set.name, eval_set_file=path, **values)


def _write_outputs(
    reports: Sequence[EvalReport], json_output: str | None, junit_output: str | None, config: EvalConfig
) -> bool:
    """Whether the files that the options ask for were written."""
    from agentflow_eval._files import write_text
    from agentflow_eval.errors import ReportError

    texts: list[tuple[str, Callable[[], str]]] = []
    if json_output is not None:
        texts.append((json_output, lambda: _json_text(reports)))
    if junit_output is not None:
        from agentflow_eval.reporters.junit import render_many

        texts.append((junit_output, lambda: render_many(reports, config.reporter.junit_profile)))
    written = True
    for path, text in texts:
        try:
            write_text(path, text())
        except ReportError as exc:
            click.echo(f"error: {exc}", err=True)
            written = False
    return written


def _json_text(reports: Sequence[EvalReport]) -> str:
    """One report as it is; several as a list under ``reports``."""
    from agentflow_eval.reporters import JSONReporter

    texts = [JSONReporter().render(report) for report in reports]
    if len(texts) == 1:
        return texts[0]
    return '{"format_version": 1, "reports": [\n' + ",\n".join(text.rstrip() for text in texts) + "\n]}\n"


# check, list, schema, report


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
    return FAILED if _lint([path for path in files if not _looks_like_config(path)], configs, agent, strict) else PASSED


def _is_valid(path: str, configs: Sequence[EvalConfig]) -> bool:
    """Whether a file can be used; prints what it holds, or every problem."""
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalSet
    from agentflow_eval.errors import LoadError
    from agentflow_eval.reporters._words import count

    with _warnings_shown():
        try:
            if _looks_like_config(path):
                config = EvalConfig.from_file(path)
                problems = _missing_templates(path, config)
                summary = f"config, criteria: {', '.join(config.criteria.enabled()) or 'none'}"
            else:
                eval_set = EvalSet.from_file(path)
                turns = sum(len(case.conversation) for case in eval_set)
                problems = _unknown_names(path, eval_set, configs) if configs else []
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
    target = adapt(_agent_of(agent, EvalConfig()), **(options.model_dump() if options else {}))
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
        return [EvalConfig.from_file(path) for path in files if _looks_like_config(path)]
    except LoadError:
        return []


def _looks_like_config(path: str) -> bool:
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


@commands.command(name="list")
@click.argument("evalsets", nargs=-1, required=True, metavar="EVALSET...")
@selection
@click.option("--json-output", metavar="FILE", help="Write the list as JSON to this file.")
def list_cases(
    evalsets: tuple[str, ...],
    ids: tuple[str, ...],
    names: tuple[str, ...],
    tags: tuple[str, ...],
    json_output: str | None,
) -> int:
    """List the cases of eval sets without running them."""
    from agentflow_eval.reporters._words import count

    sets, _ = _loaded(evalsets, None, only_sets=True)
    chosen = [_select(eval_set, ids, names, tags) for _, eval_set in sets]
    if not _check_selection([eval_set for _, eval_set in sets], ids, names, tags):
        return NOTHING_TO_RUN
    for eval_set in chosen:
        click.echo(f"{eval_set.eval_set_id}: {count(len(eval_set), 'case')}")
        for case in eval_set:
            click.echo(_line(case))
    if json_output is not None:
        _write_list(chosen, json_output)
    return PASSED


def _line(case: EvalCase) -> str:
    turns = f"{len(case.conversation)} turns" if len(case.conversation) > 1 else "1 turn"
    parts = [case.eval_id, case.name, turns, " ".join(f"#{tag}" for tag in case.tags)]
    skip = [f"skipped: {case.skip}"] if case.skip else []
    return "  " + "  ".join(part for part in [*parts, *skip] if part)


def _write_list(sets: Sequence[EvalSet], path: str) -> None:
    import orjson

    from agentflow_eval._files import printable, write_text

    listed = [
        {
            "eval_set_id": printable(eval_set.eval_set_id),
            "cases": [
                {"eval_id": printable(case.eval_id), "name": printable(case.name), "tags": case.tags}
                for case in eval_set
            ],
        }
        for eval_set in sets
    ]
    write_text(path, orjson.dumps(listed, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())


@commands.command()
@click.argument("kind", type=click.Choice(["evalset", "config", "report"]), required=False)
@click.option("--output-dir", metavar="DIR", help="Write evalset, config and report.schema.json into this folder.")
def schema(kind: str | None, output_dir: str | None) -> int:
    """Print the JSON Schema of a file format, for editors ("$schema" in your files)."""
    from agentflow_eval._files import write_text
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalSet
    from agentflow_eval.result import EvalReport

    models = {"evalset": EvalSet, "config": EvalConfig, "report": EvalReport}
    kinds = [kind] if kind else list(models)
    if kind is None and output_dir is None:
        raise click.UsageError("name one of evalset, config, report, or give --output-dir")
    for name in kinds:
        text = _schema_text(models[name])
        if output_dir is None:
            click.echo(text, nl=False)
        else:
            click.echo(write_text(Path(output_dir) / f"{name}.schema.json", text))
    return PASSED


def _schema_text(model: Any) -> str:
    import json

    mode: Any = "serialization" if model.__name__ == "EvalReport" else "validation"
    schema = model.model_json_schema(mode=mode)  # a report is described as it is written
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(described, indent=2, ensure_ascii=False) + "\n"


@commands.command()
@click.argument("file", metavar="REPORT")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["console", "json", "html", "junit"]),
    default="console",
    help="What to make of it.",
)
@click.option("--template", metavar="FILE", help="Render with your own Jinja2 template instead.")
@click.option("--output", metavar="FILE", help="Write to this file instead of printing.")
@click.option("-v", "--verbose", is_flag=True, help="Show passed cases too.")
def report(file: str, kind: str, template: str | None, output: str | None, verbose: bool) -> int:
    """Show a saved JSON report again, or the .partial.jsonl of a run that died."""
    from agentflow_eval._files import write_text

    loaded = _saved_report(file)
    if template is None and kind == "console" and output is None:
        from agentflow_eval.reporters import print_report

        print_report(loaded, verbose=verbose)
        return PASSED
    text = _rendered(loaded, kind, template, verbose)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        click.echo(write_text(output, text))
    return PASSED


@commands.command()
@click.option("--agent", metavar="MODULE:ATTR", help="The agent; the config can name it too.")
@click.option("--config", "config_path", metavar="FILE", help="For agent, endpoint and agent_options.")
@click.option("--message", default="Hello", show_default=True, metavar="TEXT", help="What the agent is asked.")
@click.option("--timeout", type=_Seconds(min=0, min_open=True), default=60.0, show_default=True, metavar="S")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(agent: str | None, config_path: str | None, message: str, timeout: float, as_json: bool) -> int:
    """Try an agent out: what is recorded of it, do conversations leak into each other, does it block others."""
    import json

    from agentflow_eval.doctor import diagnose
    from agentflow_eval.engine import _loop

    _, config = _loaded((), config_path)
    subject = _agent_of(agent, config)
    diagnosis = _loop.run(diagnose(subject, config, message, timeout), lambda: None)
    if as_json:
        click.echo(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False))
    else:
        for finding in diagnosis.findings:
            click.echo(f"{finding.level:<6} {finding.topic}: {finding.text}")
            if finding.fix and finding.level != "ok":
                click.echo(f"       -> {finding.fix}")
        click.echo("HEALTHY" if diagnosis.healthy else "NOT HEALTHY: verdicts about this agent cannot be trusted yet")
    return PASSED if diagnosis.healthy else FAILED


@commands.command()
@click.argument("labels", metavar="LABELS")
@click.option("--config", "config_path", required=True, metavar="FILE", help="Its judged criteria are calibrated.")
@click.option("--json-output", metavar="FILE", help="Write the figures as JSON to this file too.")
def calibrate(labels: str, config_path: str, json_output: str | None) -> int:
    """Compare judges with people who labelled the same answers."""
    import asyncio

    from agentflow_eval._files import write_text
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.criteria._judged import JudgedCriterion
    from agentflow_eval.engine.calibration import Labels
    from agentflow_eval.engine.calibration import calibrate as run_calibration
    from agentflow_eval.evaluator import AgentEvaluator

    loaded, config = Labels.from_file(labels), EvalConfig.from_file(config_path)
    evaluator = AgentEvaluator(config=config.model_copy(update={"mock_mode": True}))
    judged = [criterion for criterion in evaluator.criteria if isinstance(criterion, JudgedCriterion)]

    async def go() -> list[Any]:
        try:
            return list(await run_calibration(judged, loaded))
        finally:
            await evaluator.judges.close()

    calibrations = asyncio.run(go())
    for calibration in calibrations:
        click.echo("\n".join(_calibration_lines(calibration)))
    if json_output is not None:
        import json

        write_text(json_output, json.dumps([c.model_dump(mode="json") for c in calibrations], indent=2) + "\n")
    return FAILED if any(calibration.unjudged for calibration in calibrations) else PASSED


def _calibration_lines(calibration: Any) -> Iterator[str]:
    yield f"{calibration.criterion} by {calibration.judge_model}: {calibration.judged} examples judged"
    if calibration.agreement is not None:
        low, high = calibration.agreement_interval
        yield f"  agreement with people  {calibration.agreement:.0%}  (95% interval {low:.0%} to {high:.0%})"
    if calibration.kappa is not None:
        low, high = calibration.kappa_interval
        yield f"  Cohen's kappa          {calibration.kappa:.2f}  (95% interval {low:.2f} to {high:.2f})"
    for name, rate in (("false passes", calibration.false_pass_rate), ("false fails", calibration.false_fail_rate)):
        yield f"  {name:<21}  {'n/a' if rate is None else f'{rate:.0%}'}"
    for confusion in calibration.confusions:
        said = "good" if confusion.good else "bad"
        why = f": {confusion.reasonings[0]}" if confusion.reasonings else ""
        yield f"  differs on {confusion.id}: people say {said}, the judge gave {confusion.score:.2f}{why}"
    for example, reason in calibration.unjudged.items():
        yield f"  not judged: {example}: {reason}"


def _saved_report(file: str) -> EvalReport:
    from agentflow_eval.engine.journal import read_journal
    from agentflow_eval.result import EvalReport

    return read_journal(Path(file)) if file.endswith(".jsonl") else EvalReport.from_file(file)


def _rendered(loaded: EvalReport, kind: str, template: str | None, verbose: bool) -> str:
    from agentflow_eval import reporters

    made: dict[str, Callable[[], reporters.BaseReporter]] = {
        "console": lambda: reporters.ConsoleReporter(use_color=False, verbose=verbose),
        "json": reporters.JSONReporter,
        "html": reporters.HTMLReporter,
        "junit": reporters.JUnitXMLReporter,
    }
    reporter = made[kind]() if template is None else reporters.TemplateReporter(template)
    return reporter.render(loaded)
