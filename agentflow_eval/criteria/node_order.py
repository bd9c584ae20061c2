"""Did the graph visit the expected nodes?"""

from __future__ import annotations

from agentflow_eval.config import MatchType, NodeOrderConfig
from agentflow_eval.criteria._base import NothingToJudgeError, SlotCriterion, View
from agentflow_eval.criteria._sequence import SequenceMatch, match_sequence
from agentflow_eval.errors import did_you_mean
from agentflow_eval.result import CriterionResult, shape

_details = shape("expected_node_order", "actual_node_order", "match_type")


class NodeOrderMatchCriterion(SlotCriterion[NodeOrderConfig]):
    """Share of the expected node visits that happened, in the order that ``match_type`` asks for.

    A visit inside a subgraph is ``outer/inner``; an expected list without a ``/`` is compared with the top level only.
    """

    slot = "node_order"
    reads_events = True
    config_class = NodeOrderConfig

    def score(self, view: View, config: NodeOrderConfig) -> CriterionResult:
        """The share of expected visits that happened."""
        expected = view.expected_nodes
        if expected is None:
            raise NothingToJudgeError("no expected_node_order is stated")
        view.check_events()
        nested = any("/" in name for name in expected)
        actual = view.node_visits
        if not nested and any("/" in name for name in actual):
            actual = [name for name in actual if "/" not in name]
        match = match_sequence(expected, actual, config.match_type, str.__eq__)
        details = _details(expected, actual, config.match_type.value)
        reason = None if match.score == 1.0 else _reason(expected, actual, match, config)
        return self.scored(match.score, config, details, reason)


def _reason(expected: list[str], actual: list[str], match: SequenceMatch, config: NodeOrderConfig) -> str:
    if config.match_type is MatchType.EXACT:
        first = min([*match.missing, *match.extra])
        want = expected[first] if first < len(expected) else "the end"
        got = actual[first] if first < len(actual) else "the end"
        what = f"visit {first + 1}: expected {want}, got {got}"
    else:
        what = "; ".join(f"{expected[i]} was not visited{_where(expected[i], actual, config)}" for i in match.missing)
    known = sorted(set(actual))
    near = next((hint for i in match.missing if (hint := _near(expected[i], known))), "")
    return f"{what}{near} (expected {_path(expected)}; visited {_path(actual)})"


def _where(name: str, actual: list[str], config: NodeOrderConfig) -> str:
    if name not in actual:
        return ""
    return " in the expected order" if config.match_type is MatchType.IN_ORDER else " often enough"


def _near(name: str, known: list[str]) -> str:
    near = None if name in known else did_you_mean(name, known)
    return f" (did you mean {near}?)" if near else ""


def _path(names: list[str]) -> str:
    return " > ".join(names) or "nothing"
