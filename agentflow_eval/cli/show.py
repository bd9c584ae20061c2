"""``list``, ``schema``, ``report``: what is there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentflow_eval.cli._app import NOTHING_TO_RUN, PASSED, commands, selection
from agentflow_eval.cli._inputs import (
    check_selection,
    loaded,
    select,
)

if TYPE_CHECKING:
    from agentflow_eval.dataset import EvalCase, EvalSet
    from agentflow_eval.result import EvalReport


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

    sets, _ = loaded(evalsets, None, only_sets=True)
    chosen = [select(eval_set, ids, names, tags) for _, eval_set in sets]
    if not check_selection([eval_set for _, eval_set in sets], ids, names, tags):
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
