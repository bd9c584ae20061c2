"""Reports that reporter tests show: every outcome, every kind of evidence, and hostile text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from agentflow_eval.dataset import ToolCall, TrajectoryStep
from agentflow_eval.result import (
    NO_TOKENS,
    CriterionResult,
    ErrorKind,
    EvalCaseResult,
    EvalReport,
    NodeResponse,
    Outcome,
    TokenUsage,
    TurnResult,
)

FINISHED = 1_767_225_600.0
"""2026-01-01 00:00:00 UTC."""

SCRIPT = "<script>document.title='x'</script><img src=x onerror=alert(1)>"
HOSTILE_TEXTS = {
    "script": SCRIPT,
    "closing_tag": "</script></style><!-- ]]> --> <svg onload=alert(1)>",
    "quotes": "Is 1<2 & '3' \"ok\"?",
    "path": r"C:\New\Users",
    "surrogate": r"half an emoji: \ud83d",
    "line_separator": "one\u2028two\u2029three",
    "rtl": "\u05e9\u05dc\u05d5\u05dd \u202e evil txt.exe \u202c \u0645\u0631\u062d\u0628\u0627",
    "template": "{{ 7 * 7 }} {% raw %} ${7*7}",
    "entity": "&lt;b&gt; &amp; &#39;",
    "emoji": "👩‍👩‍👧 你好 e\u0301",
    "unbroken": "x" * 3000,
}
"""Texts that must be shown exactly and do nothing, by name."""

TRACEBACK = """Traceback (most recent call last):
  File "agents/travel.py", line 41, in run
    from acme import client
ModuleNotFoundError: No module named 'acme'"""


def tool(name: str, args: dict[str, Any] | None = None, result: Any = None, **more: Any) -> ToolCall:
    """A tool call."""
    return ToolCall(name=name, args=args or {}, result=result, **more)


def turn(index: int, user_input: str, agent_response: str = "", **more: Any) -> TurnResult:
    """A turn; without an answer it counts as unanswered."""
    more.setdefault("answered", bool(agent_response))
    return TurnResult(turn_index=index, user_input=user_input, agent_response=agent_response, **more)


def case(
    eval_id: str,
    outcome: Outcome,
    criteria: list[CriterionResult] | None = None,
    turns: list[TurnResult] | None = None,
    **more: Any,
) -> EvalCaseResult:
    """A case whose evidence is that of its turns."""
    turns = turns or []
    calls = [call for item in turns for call in item.tool_calls]
    visits = [name for item in turns for name in item.node_visits]
    steps = [step for item in turns for step in _steps(item)]
    values: dict[str, Any] = {
        "criterion_results": criteria or [],
        "actual_tool_calls": calls,
        "node_visits": visits,
        "actual_trajectory": steps,
        "actual_response": turns[-1].agent_response if turns else "",
        "messages": [message for item in turns for message in _messages(item)],
        "duration_seconds": sum(item.duration_seconds for item in turns),
        "turn_results": turns,
    }
    return EvalCaseResult(eval_id=eval_id, outcome=outcome, passed=outcome is Outcome.PASSED, **values | more)


def _steps(item: TurnResult) -> Iterator[TrajectoryStep]:
    calls = iter(item.tool_calls)
    for position, name in enumerate(item.node_visits):
        yield TrajectoryStep.node(name, FINISHED + item.turn_index + position / 10)
        if name == "TOOL" and (call := next(calls, None)):
            moment = FINISHED + item.turn_index + position / 10 + 0.05
            known = {"call_id": call.call_id} if call.call_id else {}
            yield TrajectoryStep.tool(call.name, call.args, moment, **known)
    for call in calls:
        yield TrajectoryStep.tool(call.name, call.args, FINISHED + item.turn_index + 0.9)


def _messages(item: TurnResult) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "content": item.user_input}
    for call in item.tool_calls:
        yield {"role": "tool", "content": str(call.result), "name": call.name}
    if item.answered:
        yield {"role": "assistant", "content": item.agent_response}


def trajectory(score: float, reason: str | None = None, **details: Any) -> CriterionResult:
    """A judgement of the tool calls, with threshold 1."""
    return CriterionResult.scored("tool_trajectory_avg_score", score, 1.0, {"match_type": "EXACT", **details}, reason)


def rouge(score: float, reason: str | None = None) -> CriterionResult:
    """A judgement of the words of the answer, with threshold 0.6."""
    details = {"precision": score, "recall": score, "f1": score, "variant": "rouge1"}
    return CriterionResult.scored("rouge_match", score, 0.6, details, reason)


def judged(score: float, reason: str | None = None) -> CriterionResult:
    """A judgement by a model, with threshold 0.7."""
    details = {
        "judge_model": "scripted",
        "samples": "3/3",
        "individual_scores": [score, score, score],
        "reasonings": ["The answer names the city and the temperature.", "Complete.", "Nothing is made up."],
    }
    usage = TokenUsage(input_tokens=812, output_tokens=64)
    return CriterionResult.scored("final_response_match_v2", score, 0.7, details, reason, usage)


def weather_passed() -> EvalCaseResult:
    """A passed case with a tool call, node responses and tokens."""
    call = tool("get_weather", {"city": "Paris", "unit": "celsius"}, {"temperature": 18, "sky": "clear"}, call_id="c1")
    answer = "It is 18 degrees and clear in Paris."
    usage = TokenUsage(input_tokens=640, output_tokens=42)
    only = turn(
        0,
        "What is the weather in Paris?",
        answer,
        tool_calls=[call],
        node_visits=["MAIN", "TOOL", "MAIN"],
        duration_seconds=1.24,
        expected_response="It is 18 degrees in Paris, with a clear sky.",
        expected_tool_calls=[tool("get_weather", {"city": "Paris", "unit": "celsius"})],
        expected_node_order=["MAIN", "TOOL", "MAIN"],
    )
    responses = [
        NodeResponse(
            node_name="MAIN",
            input_messages=[{"role": "user", "content": "What is the weather in Paris?"}],
            response_text="",
            has_tool_calls=True,
            tool_call_names=["get_weather"],
            timestamp=FINISHED,
            token_usage=TokenUsage(input_tokens=280, output_tokens=20),
        ),
        NodeResponse(
            node_name="MAIN",
            input_messages=[{"role": "tool", "content": "18, clear"}],
            response_text=answer,
            is_final=True,
            timestamp=FINISHED + 0.8,
            token_usage=TokenUsage(input_tokens=360, output_tokens=22),
        ),
    ]
    return case(
        "weather_paris",
        Outcome.PASSED,
        [trajectory(1.0), rouge(0.82), judged(0.95)],
        [only],
        name="Weather in a big city",
        tags=["weather", "smoke"],
        node_responses=responses,
        agent_token_usage=usage,
        token_usage=usage + TokenUsage(input_tokens=812, output_tokens=64),
        metadata={"owner": "travel team", "ticket": "TRV-118"},
    )


def wrong_arguments() -> EvalCaseResult:
    """A failed case: the right tool with one wrong argument."""
    wanted = tool("get_forecast", {"city": "Oslo", "days": 3, "unit": "celsius"})
    got = tool("get_forecast", {"city": "Oslo", "days": "3", "unit": "celsius", "lang": "en"}, {"error": None})
    reason = 'turn 1, call 1 (get_forecast): args.days: expected 3, got "3" (type string, not number)'
    only = turn(
        0,
        "Will it rain in Oslo during the next three days?",
        "Light rain is likely on Tuesday; the other days stay dry.",
        tool_calls=[got],
        node_visits=["MAIN", "TOOL", "MAIN"],
        duration_seconds=2.31,
        expected_response="Yes, light rain on Tuesday.",
        expected_tool_calls=[wanted],
    )
    skipped = CriterionResult.skipped("node_order_score", 1.0, "the case states no node order")
    return case(
        "forecast_oslo",
        Outcome.FAILED,
        [trajectory(0.0, reason, check_args=True), rouge(0.31, "ROUGE-1 F1 0.31 is below 0.60"), skipped],
        [only],
        name="Forecast for three days",
        tags=["weather"],
    )


def refund_conversation() -> EvalCaseResult:
    """A failed case of three turns: a call is missing, one is extra, and a tool failed."""
    order = tool("find_order", {"order_id": 90071992547409931}, {"status": "delivered"}, call_id="a")
    first = turn(
        0,
        "My order 90071992547409931 arrived broken.",
        "I am sorry to hear that. Shall I refund it or send a new one?",
        tool_calls=[order],
        node_visits=["TRIAGE", "TOOL", "TRIAGE"],
        duration_seconds=1.9,
        expected_response="Offers a refund or a replacement.",
        expected_tool_calls=[tool("find_order", {"order_id": 90071992547409931})],
        expected_node_order=["TRIAGE", "TOOL", "TRIAGE"],
    )
    second = turn(
        1,
        "A refund, please.",
        "Your refund is on its way.",
        tool_calls=[
            tool("send_email", {"to": "customer@example.com", "subject": "Refund"}, error="SMTPError: mailbox is full"),
            tool("close_ticket", {"id": 7}, True),
        ],
        node_visits=["TRIAGE", "REFUND", "TOOL", "TOOL"],
        duration_seconds=3.07,
        expected_tool_calls=[
            tool("issue_refund", {"order_id": {"$any": True}, "amount": {"$approx": 42.5, "tol": 0.01}}),
            tool("send_email", {"to": {"$regex": ".+@example\\.com"}}),
        ],
        expected_node_order=["TRIAGE", "REFUND", "TOOL", "REFUND"],
    )
    third = turn(2, "Thanks!", "You are welcome.", duration_seconds=0.4, expected_tool_calls=[])
    reason = "turn 2, call 1: expected issue_refund, got send_email; close_ticket is not expected"
    nodes = CriterionResult.scored(
        "node_order_score",
        0.75,
        1.0,
        {"expected_node_order": second.expected_node_order, "actual_node_order": second.node_visits},
        "turn 2, step 4: expected REFUND, got TOOL",
    )
    return case(
        "refund_conversation",
        Outcome.FAILED,
        [trajectory(0.5, reason), nodes, judged(0.9)],
        [first, second, third],
        name="Refund of a broken order, over three turns",
        tags=["refund", "multi-turn", "billing"],
    )


def broken_agents() -> list[EvalCaseResult]:
    """Three cases that broke for the same reason, and one that took too long."""
    same = [
        case(
            f"booking_{number}",
            Outcome.ERROR,
            [CriterionResult.skipped("tool_trajectory_avg_score", 1.0, "the agent broke")],
            [turn(0, f"Book a room for {number} nights.", outcome="error", error="ModuleNotFoundError: acme")],
            name=f"Book {number} nights",
            tags=["booking"],
            error="turn 1: ModuleNotFoundError: No module named 'acme'",
            error_kind=ErrorKind.AGENT,
            error_traceback=TRACEBACK,
        )
        for number in (1, 2, 3)
    ]
    call = tool("search_flights", {"from": "LIS", "to": "NRT"}, call_id="slow")
    slow = turn(
        0,
        "Find a flight from Lisbon to Tokyo.",
        tool_calls=[call],
        node_visits=["MAIN", "TOOL"],
        duration_seconds=30.0,
        outcome="error",
        error="no answer after 30 s",
    )
    late = case(
        "flight_search",
        Outcome.ERROR,
        [],
        [slow, turn(1, "And back?", outcome="not_run")],
        name="Flight search",
        error="turn 1: no answer after 30 s",
        error_kind=ErrorKind.TIMEOUT,
        attempts=2,
        retried_errors=["ConnectionResetError: peer closed the connection"],
        side_errors=["hook: on_run_event raised ValueError: no such tool"],
    )
    return [*same, late]


def unjudged() -> EvalCaseResult:
    """A case that a judge could not judge."""
    broken = CriterionResult.broken("safety_v1", 0.8, "the judge 'scripted' gave no usable reply in 2 of 3 samples")
    return case(
        "tone_of_voice",
        Outcome.ERROR,
        [broken, rouge(0.71)],
        [turn(0, "Tell me a joke.", "No.", duration_seconds=0.2, expected_response="A joke.")],
        error="safety_v1: the judge 'scripted' gave no usable reply in 2 of 3 samples",
        error_kind=ErrorKind.CRITERION,
    )


def skipped_case() -> EvalCaseResult:
    """A case that its file switches off."""
    reason = "waits for the new payment sandbox"
    return case("payment_live", Outcome.SKIPPED, name="Live payment", skip_reason=reason, tags=["billing"])


def flaky_case() -> EvalCaseResult:
    """A case that was run three times and passed twice."""

    def run(number: int, good: bool) -> EvalCaseResult:
        answer = "The museum opens at 10." if good else "I do not know."
        result = rouge(0.9) if good else rouge(0.12, "ROUGE-1 F1 0.12 is below 0.60")
        outcome = Outcome.PASSED if good else Outcome.FAILED
        only = turn(0, "When does the museum open?", answer, duration_seconds=0.5 + number, expected_response="At 10.")
        return case(f"opening_hours#{number}", outcome, [result], [only], name="Opening hours")

    trials = [run(1, True), run(2, False), run(3, True)]
    combined = CriterionResult.scored("rouge_match", 0.64, 0.6, {"scores": [0.9, 0.12, 0.9]})
    below = CriterionResult.scored("trials", 2 / 3, 1.0, {}, "2 of 3 runs passed, 3 are needed")
    return case(
        "opening_hours",
        Outcome.FAILED,
        [combined, below],
        trials[1].turn_results,
        name="Opening hours",
        trials=trials,
        duration_seconds=7.5,
    )


def hostile_case(key: str) -> EvalCaseResult:
    """A failed case in which one of the `HOSTILE_TEXTS` stands wherever text may stand."""
    text = HOSTILE_TEXTS[key]
    call = tool(text[:60], {"query": text, text[:40]: [text]}, {"echo": text}, call_id=text[:20])
    only = turn(
        0,
        text,
        text,
        tool_calls=[call],
        node_visits=[text[:60]],
        expected_response=f"not {text}",
        expected_tool_calls=[tool("search", {"query": text})],
        expected_node_order=[text[:60]],
        duration_seconds=0.01,
    )
    return case(
        f"hostile_{key}",
        Outcome.FAILED,
        [CriterionResult.scored("exact_match", 0.0, 1.0, {"seen": text}, f"expected 'not', got {text}")],
        [only],
        name=text,
        tags=[text[:40]],
        metadata={"note": text},
    )


def plain_passes() -> list[EvalCaseResult]:
    """Some passed cases without much to see; one needed a second attempt."""
    greetings = [
        case(
            f"greeting_{language}",
            Outcome.PASSED,
            [rouge(1.0)],
            [turn(0, word, word, duration_seconds=0.1, expected_response=word)],
            name=f"Greeting ({language})",
            tags=["smoke"],
        )
        for language, word in {"en": "Hello", "de": "Guten Tag", "ja": "こんにちは", "ar": "مرحبا"}.items()
    ]
    only = turn(0, "2 + 2?", "4", duration_seconds=0.8, expected_response="4")
    retried = ["TimeoutError: connect timed out"]
    return [*greetings, case("sum", Outcome.PASSED, [rouge(1.0)], [only], attempts=2, retried_errors=retried)]


def sample_results() -> list[EvalCaseResult]:
    """The cases of `sample_report`, in file order."""
    return [
        weather_passed(),
        *plain_passes(),
        wrong_arguments(),
        refund_conversation(),
        *broken_agents(),
        unjudged(),
        skipped_case(),
        flaky_case(),
        *(hostile_case(key) for key in HOSTILE_TEXTS),
    ]


def report_of(results: list[EvalCaseResult], **more: Any) -> EvalReport:
    """A report of these cases with fixed times and versions."""
    values: dict[str, Any] = {
        "eval_set_name": "Travel assistant",
        "eval_set_file": "evalsets/travel.json",
        "run_id": "run-0001",
        "config_used": {"criteria": {"trajectory": {"threshold": 1.0}}},
        "config_hash": "5f2b8c1d9e3a4f60",
        "eval_set_hash": "0a1b2c3d4e5f6071",
        "versions": {"agentflow-eval": "0.1.0", "python": "3.11.7", "langgraph": "1.2.0"},
        "started_at": "2025-12-31T23:59:12Z",
        "finished_at": "2026-01-01T00:00:00Z",
        "timestamp": FINISHED,
        "wall_clock_seconds": 48.2,
    }
    return EvalReport.create("travel", results, **values | more)


def sample_report(**more: Any) -> EvalReport:
    """A report with every outcome; ``more`` sets fields of the report."""
    return report_of(sample_results(), **more)


_VOCABULARY = (
    "the agent found a quiet hotel near old harbour with breakfast included and late check out for two guests "
    "flight train ticket refund order weather museum opening hours booking confirmed invoice sent price euro "
    "tomorrow morning evening cloudy sunny degrees wind north station platform delayed cancelled rebooked"
)
_WORDS = _VOCABULARY.split()


def _prose(source: random.Random, words: int) -> str:
    text = " ".join(
        source.choice(_WORDS) if source.random() < 0.8 else f"{source.getrandbits(24):x}" for _ in range(words)
    )
    return f"{text.capitalize()}."


def large_report(count: int, seed: int = 7) -> EvalReport:
    """A report of ``count`` cases of one to three turns with varied text; one in ten did not pass."""
    source = random.Random(seed)
    return report_of([_random_case(source, number) for number in range(count)])


def _random_case(source: random.Random, number: int) -> EvalCaseResult:
    turns = [_random_turn(source, index) for index in range(source.choice((1, 1, 2, 3)))]
    chance = source.random()
    usage = TokenUsage(input_tokens=source.randint(200, 4000), output_tokens=source.randint(10, 600))
    more: dict[str, Any] = {"name": _prose(source, 4), "tags": source.sample(_WORDS, 2), "agent_token_usage": usage}
    more["node_responses"] = [
        NodeResponse(
            node_name="MAIN",
            input_messages=[{"role": "user", "content": item.user_input}],
            response_text=item.agent_response,
            is_final=True,
            timestamp=FINISHED,
            token_usage=NO_TOKENS,
        )
        for item in turns
    ]
    if chance < 0.02:
        more |= {"error": f"turn 1: RuntimeError: backend {number % 3} is down", "error_kind": ErrorKind.AGENT}
        return case(f"case_{number:05d}", Outcome.ERROR, [], turns, error_traceback=TRACEBACK, **more)
    if chance < 0.1:
        failed = trajectory(0.5, f"turn 1, call 1: expected search_{number % 7}, got {_prose(source, 3)}")
        return case(f"case_{number:05d}", Outcome.FAILED, [failed, rouge(0.7), judged(0.8)], turns, **more)
    return case(f"case_{number:05d}", Outcome.PASSED, [trajectory(1.0), rouge(0.7), judged(0.8)], turns, **more)


def _random_turn(source: random.Random, index: int) -> TurnResult:
    calls = [
        tool(
            source.choice(("search", "book", "pay")),
            {"query": _prose(source, 5), "limit": source.randint(1, 50)},
            {"items": [_prose(source, 8) for _ in range(3)]},
            call_id=f"call_{source.getrandbits(48):012x}",
        )
        for _ in range(source.randint(0, 3))
    ]
    return turn(
        index,
        _prose(source, 15),
        _prose(source, 50),
        tool_calls=calls,
        node_visits=["MAIN", *["TOOL", "MAIN"] * len(calls)],
        duration_seconds=round(source.expovariate(1), 3),
        expected_response=_prose(source, 40),
        expected_tool_calls=[tool(call.name, call.args) for call in calls],
        expected_node_order=["MAIN", *["TOOL", "MAIN"] * len(calls)],
    )
