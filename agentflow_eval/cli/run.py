"""``run``: an agent through eval sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from agentflow_eval.cli._app import FAILED, INTERRUPTED, NOTHING_TO_RUN, PASSED, Seconds, Stop, commands, selection
from agentflow_eval.cli._inputs import (
    agent_of,
    check_selection,
    loaded,
    select,
    warnings_shown,
)

if TYPE_CHECKING:
    from agentflow_eval.config import EvalConfig
    from agentflow_eval.dataset import EvalSet
    from agentflow_eval.evaluator import AgentEvaluator
    from agentflow_eval.result import EvalReport


@commands.command()
@click.argument("evalsets", nargs=-1, required=True, metavar="EVALSET...")
@click.option("--config", "config_path", metavar="FILE", help="How to score. Left out: EvalConfig.default().")
@click.option("--agent", metavar="MODULE:ATTR", help="The agent; the config can name it too.")
@selection
@click.option("-j", "--parallel", type=click.IntRange(min=1), metavar="N", help="Run N cases at once.")
@click.option("--timeout", type=Seconds(min=0, min_open=True), metavar="SECONDS", help="Limit of one case.")
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
    sets, config = loaded(evalsets, config_path)
    config = _with_options(config, **options)
    selected = [(path, select(eval_set, ids, names, tags)) for path, eval_set in sets]
    if not check_selection([eval_set for _, eval_set in sets], ids, names, tags):
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


def _warn_of_unread(sets: Iterable[EvalSet], config: EvalConfig) -> None:
    """Says which expectations are stated and read by no criterion."""
    from agentflow_eval.lint import unread

    for line in unread(sets, config):
        click.echo(f"warning: {line}", err=True)


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
    return AgentEvaluator(agent_of(agent, config), config=config)


def _run_sets(
    evaluator: AgentEvaluator, sets: Sequence[tuple[str, EvalSet]], output_dir: str | None
) -> tuple[list[EvalReport], bool]:
    """The report of each set, and whether every report file was written; sets after an interruption are not run."""
    import asyncio

    reports: list[EvalReport] = []
    all_written = True
    for number, (path, eval_set) in enumerate(sets, start=1):
        with warnings_shown():
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
