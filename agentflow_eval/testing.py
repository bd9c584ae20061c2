"""Helpers for test suites: assertions, cases as test parameters, an agent and a judge that say what they are told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentflow_eval.builder import EvalSetBuilder
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import EvalConfig
from agentflow_eval.dataset import EvalSet
from agentflow_eval.errors import JudgeError
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.judge import JudgeReply, JudgeRequest
from agentflow_eval.result import EvalReport, TokenUsage

if TYPE_CHECKING:
    import pytest


def assert_eval_passed(report: EvalReport, min_pass_rate: float = 1.0) -> None:
    """Fails with the reasons of every case that did not pass, unless enough cases did.

    Raises:
        AssertionError: Fewer than ``min_pass_rate`` passed, none did, or no agent was run.
    """
    summary = report.summary
    enough = summary.passed_cases > 0 and summary.pass_rate >= min_pass_rate - 1e-9
    if enough and not report.mock and not report.interrupted:
        return
    lines = [f"{summary.pass_rate:.1%} of the cases passed, {min_pass_rate:.1%} needed"]
    for case in report.failed_cases:
        lines += [f"  {case.label}: {line}" for line in case.explanation()]
        lines += [
            f"    {result.criterion} {result.score:.2f} < {result.threshold:.2f}"
            for result in case.failed_criteria
            if result.score is not None
        ]
    raise AssertionError("\n".join(lines))


def assert_criterion_passed(report: EvalReport, criterion: str, min_score: float | None = None) -> None:
    """Fails unless a criterion judged something, never broke, and passed every case or has the mean ``min_score``.

    Args:
        report: The report.
        criterion: The reported name.
        min_score: Least mean score, 0..1; None: every case that it judged has to have passed.

    Raises:
        AssertionError: It did not.
    """
    stats = report.summary.criterion_stats.get(criterion)
    if stats is None:
        known = ", ".join(report.summary.criterion_stats) or "none"
        raise AssertionError(f"no criterion {criterion!r} in the report (there: {known})")
    if stats.errored or stats.avg_score is None:
        raise AssertionError(f"{criterion} could not judge {stats.errored} of {stats.total} cases")
    if min_score is None and stats.failed:
        raise AssertionError(f"{criterion} failed {stats.failed} of {stats.total} cases")
    if min_score is not None and stats.avg_score < min_score - 1e-9:
        raise AssertionError(f"{criterion} has the mean score {stats.avg_score:.2f}, {min_score:.2f} needed")


def parametrize_eval_cases(eval_file: Path | str) -> pytest.MarkDecorator:
    """A pytest mark that runs a test once for each case of a file, as the argument ``eval_case``, named by its id."""
    import pytest

    cases = EvalSet.from_file(eval_file).eval_cases
    return pytest.mark.parametrize("eval_case", cases, ids=[case.eval_id for case in cases])


async def run_eval(
    graph: Any,
    collector: TrajectoryCollector | None,
    eval_set_path: Path | str,
    config: EvalConfig | None = None,
    verbose: bool = False,
) -> EvalReport:
    """Runs an eval set file with an agent."""
    return await AgentEvaluator(graph, collector, config).evaluate(eval_set_path, verbose=verbose)


def create_simple_eval_set(eval_set_id: str, cases: Sequence[tuple[str, str, str]]) -> EvalSet:
    """A set of ``(query, expected answer, name)`` cases with the ids ``case_0``, ``case_1``..."""
    builder = EvalSetBuilder(eval_set_id)
    builder.eval_set_id = eval_set_id
    for index, (query, expected, name) in enumerate(cases):
        builder.add_case(query, expected, f"case_{index}", name=name)
    return builder.build()


class ScriptedAgent:
    """An agent that answers what a table says, and records the tools that go with it.

    Args:
        answers: What the user says -> the answer, or ``{"response", "tool_calls", "node_visits"}``.
        default: The answer to anything else; None gives no response.
    """

    def __init__(self, answers: Mapping[str, Any], default: Any = None) -> None:
        self._answers = dict(answers)
        self._default = default

    async def __call__(self, text: str) -> Any:
        """The answer to ``text``."""
        return self._answers.get(text, self._default)


class ScriptedJudge:
    """A judge that replies what it is told; every request is kept in ``requests``.

    Args:
        replies: One reply for every request; or replies given in turn, the last one again and again; or a function of
            the request. A reply is text, a number (the score), an object, or an exception that is raised.
        token_usage: Tokens that each reply reports.
    """

    def __init__(
        self,
        replies: Any = 1.0,
        token_usage: TokenUsage | None = None,
    ) -> None:
        self._replies = replies
        self._usage = token_usage or TokenUsage()
        self.requests: list[JudgeRequest] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The next reply.

        Raises:
            JudgeError: The script says so.
        """
        self.requests.append(request)
        reply = self._next(request)
        if isinstance(reply, BaseException):
            raise reply if isinstance(reply, JudgeError) else JudgeError(str(reply))
        return JudgeReply(_reply_text(reply, request), self._usage)

    def _next(self, request: JudgeRequest) -> Any:
        if callable(self._replies):
            return self._replies(request)
        if isinstance(self._replies, (list, tuple)):
            return self._replies[min(len(self.requests), len(self._replies)) - 1]
        return self._replies


def _reply_text(reply: Any, request: JudgeRequest) -> str:
    if isinstance(reply, str):
        return reply
    if isinstance(reply, bool):
        reply = {"passed": reply, "reasoning": "scripted"}
    elif isinstance(reply, (int, float)):
        names = [name for name in request.schema.get("properties", {}) if name not in ("reasoning", "issues", "errors")]
        scored = [name for name in names if name != "hallucinations"]
        values = {name: reply >= 0.5 if name == "passed" else reply for name in scored}
        reply = {**values, "reasoning": "scripted"}
    return json.dumps(reply)
