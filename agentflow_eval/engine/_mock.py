"""Replays a case's own expectations as if the agent had done exactly that."""

from __future__ import annotations

from agentflow_eval._files import printable
from agentflow_eval._values import example
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig
from agentflow_eval.dataset import EvalCase, Invocation
from agentflow_eval.result import TokenUsage

MOCK_NODE = "MOCK"


def replay(case: EvalCase, criteria: CriteriaConfig, collector: TrajectoryCollector) -> None:
    """Records the perfect run of ``case``."""
    last = len(case.conversation) - 1
    for index, turn in enumerate(case.conversation):
        collector.begin_turn(printable(turn.user_content.get_text()))
        for name in turn.expected_nodes if turn.expected_nodes is not None else [MOCK_NODE]:
            collector.node(name)
        for call in turn.expected_tools or ():
            collector.tool(call.name, {name: example(value) for name, value in call.args.items()})
        collector.tokens(TokenUsage(input_tokens=1))
        collector.say(_answer(turn, case, criteria, final=index == last))
        collector.end_turn()


def _answer(turn: Invocation, case: EvalCase, criteria: CriteriaConfig, final: bool) -> str:
    """The expected answer; where none is stated, the keywords that are."""
    if turn.expected_text is not None:
        return turn.expected_text
    slot = criteria.contains_keywords
    keywords = [*turn.expected_keywords, *((slot.keywords or ()) if slot else ())]
    if final:
        keywords += case.expected_keywords
    return " ".join(keywords) or "mock answer"
