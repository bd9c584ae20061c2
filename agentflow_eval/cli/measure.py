"""``doctor``, ``calibrate``: can the agent be seen, can the judges be believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from agentflow_eval.cli._app import FAILED, PASSED, Seconds, commands
from agentflow_eval.cli._inputs import (
    agent_of,
    loaded,
)

if TYPE_CHECKING:
    pass


@commands.command()
@click.option("--agent", metavar="MODULE:ATTR", help="The agent; the config can name it too.")
@click.option("--config", "config_path", metavar="FILE", help="For agent, endpoint and agent_options.")
@click.option("--message", default="Hello", show_default=True, metavar="TEXT", help="What the agent is asked.")
@click.option("--timeout", type=Seconds(min=0, min_open=True), default=60.0, show_default=True, metavar="S")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(agent: str | None, config_path: str | None, message: str, timeout: float, as_json: bool) -> int:
    """Try an agent out: what is recorded of it, do conversations leak into each other, does it block others."""
    import json

    from agentflow_eval.doctor import diagnose
    from agentflow_eval.engine import _loop

    _, config = loaded((), config_path)
    subject = agent_of(agent, config)
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
