"""The cases of a report as the compact data that the HTML page unpacks."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from agentflow_eval._values import jsonable
from agentflow_eval.dataset import StepType, ToolCall, TrajectoryStep
from agentflow_eval.reporters._base import Shown
from agentflow_eval.result import (
    CriterionResult,
    ErrorKind,
    EvalCaseResult,
    NodeDetail,
    NodeResponse,
    TokenUsage,
    TurnResult,
)

LONGEST = 20_000
"""Characters of one text in a tool's arguments or result; what is cut is said."""

RAW = "\x00"
"""Starts a text that stands for a number too large for JavaScript; no other text has it, see `printable`."""

KIND_WORDS = {
    ErrorKind.AGENT: "The agent raised an exception",
    ErrorKind.TIMEOUT: "The agent did not finish in time",
    ErrorKind.JUDGE: "A judge could not judge",
    ErrorKind.CRITERION: "A criterion could not judge",
    ErrorKind.WIRING: "The agent answered, but nothing was recorded",
    ErrorKind.NOTHING_CHECKED: "No criterion judged the case",
    ErrorKind.FIXTURE: "A fixture broke",
    ErrorKind.NOT_RUN: "The run was interrupted before the case",
    ErrorKind.CANCELLED: "The run was interrupted during the case",
}

_LARGEST_INT = 2**53 - 1
_ORJSON_OPTIONS = orjson.OPT_STRICT_INTEGER | orjson.OPT_NON_STR_KEYS
_GZIP_LEVEL = 4
"""Level 6 saves 6% and takes twice as long."""


def packed(value: Any) -> str:
    """``value`` as JSON, compressed, as base64."""
    return _compressed(_json(value))


def packed_cases(cases: Iterable[EvalCaseResult], shown: Shown) -> str:
    """The evidence of some cases, packed as one list."""
    return _compressed(b"[%b]" % b",".join(_case_json(case, shown) for case in cases))


def _compressed(text: bytes) -> str:
    return base64.b64encode(gzip.compress(text, _GZIP_LEVEL, mtime=0)).decode("ascii")


def _case_json(case: EvalCaseResult, shown: Shown) -> bytes:
    evidence = _case(case, shown)
    text = _json(evidence)
    if len(text) <= LONGEST:
        return text
    _clip(evidence)
    return _json(evidence)


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=jsonable, option=_ORJSON_OPTIONS)
    except TypeError:
        # Text that UTF-8 cannot hold, a number that JavaScript cannot, or deep nesting.
        return json.dumps(_exact(jsonable(value)), ensure_ascii=False).encode()


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    too_large = type(value) is int and abs(value) > _LARGEST_INT
    return f"{RAW}{value}" if too_large else value


def _clip(evidence: dict[str, Any]) -> None:
    """Cuts very long texts in what tools and models were given and gave back; answers stay whole."""
    for key in ("calls", "steps", "responses", "messages"):
        if key in evidence:
            evidence[key] = _clipped(evidence[key])
    for part in (*evidence.get("turns", ()), *evidence.get("trials", ())):
        _clip(part)


def _clipped(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        rest = len(value) - LONGEST
        return value if rest <= 0 else f"{value[:LONGEST]}\n[{rest:,} more characters were cut from this report]"
    if kind is dict:
        return {key: _clipped(item) for key, item in value.items()}
    if kind is list:
        return [_clipped(item) for item in value]
    return value


def _given(**values: Any) -> dict[str, Any]:
    """The values that are there: neither None nor empty, zero or false."""
    return {key: value for key, value in values.items() if value}


def _case(case: EvalCaseResult, shown: Shown) -> dict[str, Any]:
    """What is shown of an opened case; the runs of a case that is run more than once hold its evidence."""
    evidence = {} if case.trials else _evidence(case, shown)
    return evidence | _given(
        criteria=[_criterion(result, shown) for result in case.criterion_results],
        metadata=case.metadata,
        traceback=case.error_traceback,
        kind=KIND_WORDS[case.error_kind] if case.error_kind else None,
        attempts=case.attempts - 1,
        retried=case.retried_errors,
        beside=case.side_errors,
        agent_tokens=_tokens(case.agent_token_usage),
        tokens=_tokens(case.token_usage),
        trials=[_trial(trial, shown) for trial in case.trials],
    )


def _evidence(case: EvalCaseResult, shown: Shown) -> dict[str, Any]:
    """What a run recorded; what its turns say is not said twice."""
    turns = case.turn_results
    answered = bool(turns) and turns[-1].agent_response == case.actual_response
    own_calls = () if any(turn.tool_calls for turn in turns) else case.actual_tool_calls
    return _given(
        turns=[_turn(turn, shown) for turn in turns],
        calls=_calls(own_calls, shown),
        nodes=None if any(turn.node_visits for turn in turns) else case.node_visits,
        answer=None if answered or not shown.include_actual_response else case.actual_response,
        steps=_steps(case, shown),
        responses=_responses(case, shown),
        messages=_messages(case, shown),
    )


def _trial(trial: EvalCaseResult, shown: Shown) -> dict[str, Any]:
    """One run of a case: its evidence with what the list shows of a case."""
    return _case(trial, shown) | {
        "outcome": trial.outcome,
        "why": trial.explanation(),
        "seconds": trial.duration_seconds,
    }


def _criterion(result: CriterionResult, shown: Shown) -> dict[str, Any]:
    details = result.details if shown.include_details else {}
    hidden = {"reason"} if shown.include_actual_response else {"reason", "actual_response"}
    more = {key: value for key, value in details.items() if key not in hidden}
    lean = _given(name=result.criterion, outcome=result.outcome, threshold=result.threshold, details=more)
    if result.score is not None:
        lean["score"] = result.score
    return lean | _given(why=result.reason or result.error, tokens=_tokens(result.token_usage))


def _turn(turn: TurnResult, shown: Shown) -> dict[str, Any]:
    lean = _given(
        user=turn.user_input,
        answered=turn.answered,
        calls=_calls(turn.tool_calls, shown),
        nodes=turn.node_visits,
        outcome=None if turn.outcome == "ok" else turn.outcome,
        error=turn.error,
        seconds=turn.duration_seconds,
        note=turn.note,
    )
    if shown.include_actual_response:
        lean["answer"] = turn.agent_response
    if turn.expected_response is not None:
        lean["wanted_answer"] = turn.expected_response
    if turn.expected_tool_calls is not None:
        lean["wanted_calls"] = _calls(turn.expected_tool_calls, shown)
    if turn.expected_node_order is not None:
        lean["wanted_nodes"] = turn.expected_node_order
    return lean


def _calls(calls: Iterable[ToolCall], shown: Shown) -> list[dict[str, Any]]:
    if not shown.include_tool_call_details:
        return [{"name": call.name, "bare": True} for call in calls]
    return [_call(call) for call in calls]


def _call(call: ToolCall) -> dict[str, Any]:
    lean = _given(name=call.name, args=call.args, id=call.call_id, error=call.error)
    if call.result is not None:
        lean["result"] = call.result
    return lean


def _steps(case: EvalCaseResult, shown: Shown) -> list[dict[str, Any]]:
    if not shown.include_trajectory:
        return []
    hide_args = bool(case.actual_tool_calls) or not shown.include_tool_call_details
    return [_step(step, hide_args, not shown.include_tool_call_details) for step in case.actual_trajectory]


def _step(step: TrajectoryStep, hide_args: bool, hide_tool_details: bool) -> dict[str, Any]:
    lean: dict[str, Any] = {"type": step.step_type, "name": step.name}
    if step.timestamp is not None:
        lean["time"] = step.timestamp
    if step.args and not hide_args:
        lean["args"] = step.args
    if step.metadata and not (hide_tool_details and step.step_type is StepType.TOOL):
        lean["more"] = step.metadata
    return lean


def _responses(case: EvalCaseResult, shown: Shown) -> list[dict[str, Any]]:
    if not shown.include_node_responses:
        return []
    source: Sequence[NodeResponse | NodeDetail] = case.node_responses or case.node_details
    return [_response(response) for response in source]


def _messages(case: EvalCaseResult, shown: Shown) -> list[dict[str, Any]]:
    hidden = {
        "assistant": not shown.include_actual_response,
        "tool": not shown.include_tool_call_details,
    }
    messages = case.messages
    if any(hidden.values()):
        messages = [message for message in messages if not hidden.get(str(message.get("role")))]
    if not shown.include_tool_call_details:
        messages = [{key: value for key, value in m.items() if key != "tool_calls"} for m in messages]
    return messages


def _response(response: NodeResponse | NodeDetail) -> dict[str, Any]:
    lean = _given(
        node=response.node_name,
        input=response.input_messages,
        text=response.response_text,
        tokens=_tokens(response.token_usage),
    )
    if isinstance(response, NodeResponse):
        lean |= _given(final=response.is_final, tools=response.tool_call_names)
    return lean


def _tokens(usage: TokenUsage) -> Mapping[str, int] | None:
    if not usage:
        return None
    cached = usage.cache_read_tokens
    return _given(input=usage.input_tokens, output=usage.output_tokens, total=usage.total_tokens, cached=cached)
