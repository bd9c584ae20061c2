"""Were the expected tool calls made, in the given order and with the given arguments?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agentflow_eval._values import mismatch, shown
from agentflow_eval.config import MatchType, TrajectoryConfig
from agentflow_eval.criteria._base import NothingToJudgeError, SlotCriterion, View, notes
from agentflow_eval.criteria._sequence import SequenceMatch, match_sequence
from agentflow_eval.dataset import ToolCall
from agentflow_eval.errors import did_you_mean
from agentflow_eval.result import CriterionResult, shape

_REASONS_SHOWN = 5
_details = shape("expected_trajectory", "actual_trajectory", "match_type", "check_args")


class TrajectoryMatchCriterion(SlotCriterion[TrajectoryConfig]):
    """Share of the expected tool calls that were made, in the order that ``match_type`` asks for."""

    slot = "trajectory"
    reads_events = True
    config_class = TrajectoryConfig

    def score(self, view: View, config: TrajectoryConfig) -> CriterionResult:
        """The share of expected calls that were made."""
        expected, actual = view.expected_tools, view.tool_calls
        if expected is None:
            raise NothingToJudgeError("no expected_tool_trajectory is stated")
        view.check_events()
        checks_args = config.effective_args_mode != "ignore"
        equal = partial(_equal, config) if checks_args or config.require_success else _same_name
        match = match_sequence(expected, actual, config.match_type, equal)
        details = _details(view.expected_tool_names, view.tool_names, config.match_type.value, checks_args)
        remarks = _remarks(expected, actual, match, config)
        reason = None if match.score == 1.0 else _reason(expected, actual, match, config)
        return self.scored(match.score, config, notes(details, remarks), reason)


def _same_name(expected: ToolCall, actual: ToolCall) -> bool:
    return expected.name == actual.name


def _equal(config: TrajectoryConfig, expected: ToolCall, actual: ToolCall) -> bool:
    return _difference(config, expected, actual) is None


def _difference(config: TrajectoryConfig, expected: ToolCall, actual: ToolCall) -> str | None:
    """Why ``actual`` is not the expected call; None when it is."""
    if expected.name != actual.name:
        return f"expected {call_text(expected)}, got {call_text(actual)}"
    if config.require_success and actual.error is not None:
        return f"{expected.name} ended in an error: {actual.error}"
    mode = config.effective_args_mode
    if mode == "ignore" or not expected.args:
        return None
    defaults = config.tool_defaults.get(expected.name)
    want, got = _filled(expected.args, defaults), _filled(actual.args, defaults)
    why = mismatch(want, got, subset=mode == "subset")
    return f"{expected.name}: {why}" if why else None


def _filled(args: dict[str, Any], defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**defaults, **args} if defaults else args


def call_text(call: ToolCall) -> str:
    """A call as people write it: ``lookup(order_id=7)``."""
    return f"{call.name}({', '.join(f'{name}={shown(value)}' for name, value in call.args.items())})"


def _remarks(
    expected: list[ToolCall], actual: list[ToolCall], match: SequenceMatch, config: TrajectoryConfig
) -> list[str]:
    lines = []
    if config.effective_args_mode != "ignore":
        lines += [
            f"step {i + 1}: {call.name}: arguments not constrained" for i, call in enumerate(expected) if not call.args
        ]
    failed = sum(actual[j].error is not None for _, j in match.pairs)
    if failed:
        lines.append(f"{failed} matched call{'s' if failed > 1 else ''} ended in an error")
    return lines


def _reason(expected: list[ToolCall], actual: list[ToolCall], match: SequenceMatch, config: TrajectoryConfig) -> str:
    if not expected:
        return f"no tool may be called, got {', '.join(call_text(call) for call in actual)}"
    explained: set[int] = set()
    lines = [_missing_line(index, expected, actual, match, config, explained) for index in match.missing]
    if config.match_type is MatchType.EXACT:
        lines += [
            f"step {j + 1}: {call_text(actual[j])} was called and is not expected"
            for j in match.extra
            if j not in explained
        ]
    hidden = len(lines) - _REASONS_SHOWN
    return "; ".join(lines[:_REASONS_SHOWN]) + (f"; and {hidden} more" if hidden > 0 else "")


def _missing_line(
    index: int,
    expected: list[ToolCall],
    actual: list[ToolCall],
    match: SequenceMatch,
    config: TrajectoryConfig,
    explained: set[int],
) -> str:
    """What stands in the way of one expected call, and which recorded call explains it."""
    want, step = expected[index], f"step {index + 1}"
    if config.match_type is MatchType.EXACT:
        if index >= len(actual):
            return f"{step}: expected {call_text(want)}, got nothing{_near(want, actual)}"
        explained.add(index)
        return f"{step}: {_difference(config, want, actual[index])}{_near(want, [actual[index]])}"
    free = [j for j in match.extra if j not in explained and actual[j].name == want.name]
    differences = [(j, why) for j in free if (why := _difference(config, want, actual[j]))]
    if differences:
        explained.add(differences[0][0])
        return f"{step}: {differences[0][1]}"
    if free:
        return f"{step}: {call_text(want)} was called, but not in the expected order"
    return f"{step}: {call_text(want)} was not called{_near(want, actual)}"


def _near(want: ToolCall, actual: list[ToolCall]) -> str:
    near = did_you_mean(want.name, [call.name for call in actual if call.name != want.name])
    return f" (did you mean {near}?)" if near else ""
