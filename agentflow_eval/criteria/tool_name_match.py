"""Were the expected tools called, in any order?"""

from __future__ import annotations

from agentflow_eval.config import MatchType, ToolNameMatchConfig
from agentflow_eval.criteria._base import NothingToJudgeError, SlotCriterion, View
from agentflow_eval.criteria._sequence import match_sequence
from agentflow_eval.errors import did_you_mean
from agentflow_eval.result import CriterionResult, shape

_details = shape("expected_names", "actual_names")


class ToolNameMatchCriterion(SlotCriterion[ToolNameMatchConfig]):
    """Share of the expected tool names that were called; each call counts once.

    A forbidden tool, and with ``allow_additional: false`` any further tool, makes the score 0.
    """

    slot = "tool_name_match"
    reads_events = True
    config_class = ToolNameMatchConfig

    def score(self, view: View, config: ToolNameMatchConfig) -> CriterionResult:
        """The share of expected names that were called."""
        stated = view.expected_tools
        if stated is None and not config.forbidden:
            raise NothingToJudgeError("no expected_tool_trajectory is stated")
        view.check_events()
        expected, actual = view.expected_tool_names, view.tool_names
        details = _details(expected, actual)
        used = [name for name in dict.fromkeys(actual) if name in config.forbidden]
        if used:
            forbidden = f"forbidden tool called: {', '.join(used)}"
            return CriterionResult.failed(self.name, 0.0, config.threshold, details, forbidden)
        if stated is None:
            return self.scored(1.0, config, details)
        match = match_sequence(expected, actual, MatchType.ANY_ORDER, str.__eq__)
        extra = [actual[index] for index in match.extra]
        missing = [expected[index] for index in match.missing]
        if extra and (not config.allow_additional or not expected):
            return self.scored(0.0, config, details, _reason(missing, extra, actual))
        reason = _reason(missing, [], actual) if missing else None
        return self.scored(match.score, config, details, reason)


def _reason(missing: list[str], extra: list[str], actual: list[str]) -> str:
    parts = [f"{name} was not called{_near(name, actual)}" for name in missing]
    parts += [f"{name} was called and is not expected" for name in extra]
    return f"{'; '.join(parts)} (called: {', '.join(actual) or 'nothing'})"


def _near(name: str, actual: list[str]) -> str:
    near = did_you_mean(name, [other for other in actual if other != name])
    return f" (did you mean {near}?)" if near else ""
