"""A report without the parts that are not to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentflow_eval.dataset import ToolCall, TrajectoryStep
from agentflow_eval.reporters._base import Shown
from agentflow_eval.result import CriterionResult, EvalCaseResult, EvalReport, TurnResult

_EVERYTHING = Shown()


def trimmed(report: EvalReport, shown: Shown) -> EvalReport:
    """``report`` itself when everything is shown, else a copy in which the fields that are not shown are empty.

    Reasons and the names of tools stay.
    """
    if shown == _EVERYTHING:
        return report
    return report.model_copy(update={"results": [_case(case, shown) for case in report.results]})


def _case(case: EvalCaseResult, shown: Shown) -> EvalCaseResult:
    changes: dict[str, Any] = {
        "criterion_results": [_criterion(result, shown) for result in case.criterion_results],
        "turn_results": [_turn(turn, shown) for turn in case.turn_results],
        "trials": [_case(trial, shown) for trial in case.trials],
    }
    if not shown.include_trajectory:
        changes["actual_trajectory"] = []
    elif not shown.include_tool_call_details:
        changes["actual_trajectory"] = _bare_steps(case.actual_trajectory)
    if not shown.include_node_responses:
        changes |= {"node_responses": [], "node_details": []}
    if not shown.include_actual_response:
        changes |= {"actual_response": "", "messages": []}
    if not shown.include_tool_call_details:
        changes["actual_tool_calls"] = _bare_calls(case.actual_tool_calls)
    return case.model_copy(update=changes)


def _criterion(result: CriterionResult, shown: Shown) -> CriterionResult:
    details = result.details
    if not shown.include_details:
        details = {"reason": details["reason"]} if "reason" in details else {}
    elif not shown.include_actual_response:
        details = {key: value for key, value in details.items() if key != "actual_response"}
    return result.model_copy(update={"details": details})


def _turn(turn: TurnResult, shown: Shown) -> TurnResult:
    changes: dict[str, Any] = {}
    if not shown.include_trajectory:
        changes["trajectory_steps"] = []
    elif not shown.include_tool_call_details:
        changes["trajectory_steps"] = _bare_steps(turn.trajectory_steps)
    if not shown.include_actual_response:
        changes["agent_response"] = ""
    if not shown.include_tool_call_details:
        changes["tool_calls"] = _bare_calls(turn.tool_calls)
        if turn.expected_tool_calls is not None:
            changes["expected_tool_calls"] = _bare_calls(turn.expected_tool_calls)
    return turn.model_copy(update=changes)


def _bare_calls(calls: Sequence[ToolCall]) -> list[ToolCall]:
    return [ToolCall(name=call.name) for call in calls]


def _bare_steps(steps: Sequence[TrajectoryStep]) -> list[TrajectoryStep]:
    return [TrajectoryStep(step.step_type, step.name, timestamp=step.timestamp) for step in steps]
