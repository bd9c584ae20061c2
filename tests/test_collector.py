"""Recording a run."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pydantic import BaseModel

from agentflow_eval import (
    AgentError,
    EvalCaseResult,
    EvalReport,
    ExecutionResult,
    NodeResponse,
    Outcome,
    StepType,
    TokenUsage,
    ToolCall,
    TrajectoryCollector,
    TrajectoryStep,
)

Record = Callable[[TrajectoryCollector], Any]


class Node(str, enum.Enum):  # noqa: UP042  # on purpose: its text is not its value
    """Names of nodes as programs keep them."""

    MAIN = "main"


class Order(BaseModel):
    """Arguments as a model."""

    sku: str
    qty: int


class Hostile:
    """Raises from everything that a recorder might ask it."""

    def __str__(self) -> NoReturn:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("no attributes")


@pytest.fixture
def run() -> TrajectoryCollector:
    """A collector in its first turn."""
    collector = TrajectoryCollector()
    collector.begin_turn("Two tickets, please")
    return collector


def finished(run: TrajectoryCollector) -> ExecutionResult:
    """What the engine makes of a record."""
    run.end_turn()
    run.finish()
    return run.execution()


# Nodes and tools


def test_nodes_and_tools(run: TrajectoryCollector) -> None:
    """Visits, calls and edges are kept in order, each in its list."""
    run.node("MAIN", attempt=1)
    run.conditional("route", "TOOL")
    run.tool("seats", {"row": 4}, result=["4a"], call_id="c1")
    run.node(Node.MAIN)
    assert run.node_visits == ["MAIN", "main"]
    assert run.get_tool_names() == ["seats"]
    assert run.tool_calls == [ToolCall(name="seats", args={"row": 4}, call_id="c1", result=["4a"])]
    steps = [(step.step_type, step.name, step.args, step.metadata) for step in run.trajectory]
    assert steps == [
        (StepType.NODE, "MAIN", {}, {"attempt": 1}),
        (StepType.CONDITIONAL, "route", {}, {"target": "TOOL"}),
        (StepType.TOOL, "seats", {"row": 4}, {}),
        (StepType.NODE, "main", {}, {}),
    ]
    assert [step.name for step in run.get_trajectory_steps(StepType.NODE)] == ["MAIN", "main"]
    assert run.get_trajectory_steps() == run.trajectory
    assert run.start_time is not None
    assert run.start_time <= (run.end_time or 0)
    assert run.duration >= 0


def test_arguments_are_copied(run: TrajectoryCollector) -> None:
    """What the agent does with its arguments afterwards is not seen."""
    args, result = {"n": 1, "deep": {"items": [1]}}, {"rows": [1]}
    record = run.tool("count", args)
    record.result = result
    args["n"] = 2
    args["deep"]["items"].append(2)  # type: ignore[index]
    result["rows"].clear()
    assert run.tool_calls[0].args == {"n": 1, "deep": {"items": [1]}}
    assert run.tool_calls[0].result == {"rows": [1]}


@pytest.mark.parametrize(
    ("args", "recorded", "note"),
    [
        (None, {}, None),
        ({}, {}, None),
        ("", {}, None),
        (" ", {}, None),
        ('{"q": "ink"}', {"q": "ink"}, None),
        ('{"q": ', {"raw": '{"q": '}, "not JSON"),
        ("[1]", {"raw": [1]}, "not an object"),
        ("[" * 50_000, {"raw": "[" * 50_000}, "not JSON"),
        (["a"], {"raw": ["a"]}, "not an object"),
        (7, {"raw": 7}, "not an object"),
        (Order(sku="A1", qty=2), {"sku": "A1", "qty": 2}, None),
        ({"order": Order(sku="A1", qty=2), 1: {2}}, {"order": {"sku": "A1", "qty": 2}, "1": [2]}, None),
        ({"q": "\ud83d\x00"}, {"q": r"\ud83d\x00"}, None),
    ],
)
def test_arguments(run: TrajectoryCollector, args: Any, recorded: dict[str, Any], note: str | None) -> None:
    """Arguments become a JSON object; what cannot be one is kept as it came, with a note."""
    run.tool("find", args)
    assert run.tool_calls[0].args == recorded
    assert (note is None) == ("note" not in run.trajectory[0].metadata)
    assert (note or "") in run.trajectory[0].metadata.get("note", "")


def test_order_of_requests(run: TrajectoryCollector) -> None:
    """Calls stay in the order in which the model asked for them, whichever ends first."""
    first = run.request_tool("1", "slow", {"n": 1}, call_id="1")
    second = run.request_tool("2", "fast", {"n": 2}, call_id="2")
    assert run.request_tool("1", "slow", {"n": 1}) is first
    second.result = "done"
    assert run.open_tool("1") is first
    assert run.open_tool("3") is None
    first.error = TimeoutError("too slow")
    assert [(call.name, call.result, call.error) for call in run.tool_calls] == [
        ("slow", None, "TimeoutError: too slow"),
        ("fast", "done", None),
    ]
    run.begin_turn("again")
    assert run.open_tool("1") is None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("declined"), "ValueError: declined"),
        ("declined", "declined"),
        ({"code": 5}, '{"code": 5}'),
        ("", "failed"),
        (None, None),
        ("\x1b[31m", r"\x1b[31m"),
    ],
)
def test_errors_of_calls(run: TrajectoryCollector, error: object, text: str | None) -> None:
    """A failed call says why, whatever the failure is given as."""
    run.tool("pay", error=error)
    run.tool("pay").error = error
    assert [call.error for call in run.tool_calls] == [text, text]


def test_context_manager(run: TrajectoryCollector) -> None:
    """A ``with`` block times the call, records what it raises, and lets it through."""
    with run.tool("pay", {"eur": 5}) as call:
        call.result = "ok"
    with pytest.raises(KeyError), run.tool("pay"):
        raise KeyError("card")
    assert (call.call is run.tool_calls[0], call.result, call.error) == (True, "ok", None)
    assert run.tool_calls[1].error == "KeyError: 'card'"
    assert [step.metadata["duration_seconds"] >= 0 for step in run.trajectory] == [True, True]


def test_names_that_are_none(run: TrajectoryCollector) -> None:
    """A call without a name is kept visibly, since a report could not hold it otherwise."""
    run.tool("", call_id=5)  # type: ignore[arg-type]
    assert (run.tool_calls[0].name, run.tool_calls[0].call_id) == ("(no name)", "5")


# Answers


def test_say(run: TrajectoryCollector) -> None:
    """The last answer counts; None takes it back."""
    run.say("Wait")
    run.say("Done")
    assert run.final_response == "Done"
    run.say(None)
    assert finished(run).turns[0].answered is False


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"answer": "blue", "n": 2}, '{"answer": "blue", "n": 2}'),
        (b"\x00\x02", "b64:AAI="),
        (Order(sku="A1", qty=2), '{"sku": "A1", "qty": 2}'),
        ("half \ud83d", r"half \ud83d"),
        (Node.MAIN, "main"),
        (0, "0"),
        (False, "false"),
    ],
)
def test_answers_become_text(run: TrajectoryCollector, answer: Any, text: str) -> None:
    """Answers that are not text become text once, here."""
    run.take(answer)
    assert run.final_response == text


def test_pieces_before_a_whole_answer(run: TrajectoryCollector) -> None:
    """Streamed pieces are replaced by the final answer."""
    run.piece("Hel")
    run.piece("lo")
    assert run.final_response == "Hello"
    run.say("Hello!")
    result = finished(run)
    assert result.actual_response == "Hello!"
    assert result.turns[0].note is None


def test_pieces_alone(run: TrajectoryCollector) -> None:
    """Without a final answer the pieces are it, and a note says so."""
    run.piece("Hel")
    run.piece("lo")
    result = finished(run)
    assert result.actual_response == "Hello"
    assert result.turns[0].note == "no final event: the answer is its 2 streamed pieces joined"
    assert result.messages[-1] == {"role": "assistant", "content": "Hello"}


@pytest.mark.parametrize("answer", ["", "  \n", None])
def test_no_answer(run: TrajectoryCollector, answer: Any) -> None:
    """Nothing and white space are no answer."""
    run.say(answer)
    assert finished(run).turns[0].answered is False


def test_take_a_dict(run: TrajectoryCollector) -> None:
    """A dictionary with known keys is taken apart; empty entries are no calls."""
    run.take(
        {
            "response": "Booked",
            "tool_calls": ["seats", {"name": "book", "args": {"n": 2}, "error": "full"}, None, {}, {"name": ""}, 5],
            "node_visits": ("MAIN", "TOOL"),
            "token_usage": {"input_tokens": 3, "output_tokens": None, "cost": 1},
        }
    )
    assert run.tool_calls == [ToolCall(name="seats"), ToolCall(name="book", args={"n": 2}, error="full")]
    assert (run.node_visits, run.final_response) == (["MAIN", "TOOL"], "Booked")
    usage = run.execution().agent_token_usage
    assert usage is not None
    assert usage.total_tokens == 3


def test_take_a_dict_without_response(run: TrajectoryCollector) -> None:
    """Evidence without a response is no answer; unknown keys make the whole thing the answer."""
    run.take({"tool_calls": []})
    assert run.final_response == ""
    run.take({"response": "x", "mood": "good"})
    assert run.final_response == '{"response": "x", "mood": "good"}'
    run.take({})
    assert run.final_response == "{}"


@pytest.mark.parametrize("answer", [{"node_visits": "MAIN"}, {"node_visits": 5}, {"tool_calls": {"name": "find"}}])
def test_take_a_wrong_dict(run: TrajectoryCollector, answer: dict[str, Any]) -> None:
    """Text where a list belongs is not read letter by letter."""
    with pytest.raises(AgentError, match="it must be a list"):
        run.take(answer)


def test_take_an_execution_result(run: TrajectoryCollector) -> None:
    """A whole record is taken over; steps that it lacks are made of its visits and calls."""
    run.take(ExecutionResult(actual_response="Hi", node_visits=["A"], tool_calls=[ToolCall(name="t", args={"x": 1})]))
    assert [step.name for step in run.trajectory] == ["A", "t"]
    given = ExecutionResult(
        trajectory=[TrajectoryStep.node("B"), TrajectoryStep.tool("u")],
        node_visits=["B"],
        tool_calls=[ToolCall(name="u", result=3)],
        messages=[{"role": "tool", "content": "3"}],
        node_responses=[NodeResponse(node_name="B")],
        agent_token_usage=TokenUsage(total_tokens=4),
    )
    run.take(given)
    assert [step.name for step in run.trajectory] == ["A", "t", "B", "u"]
    assert (run.node_visits, run.get_tool_names()) == (["A", "B"], ["t", "u"])
    result = finished(run)
    assert result.turns[0].answered is False
    assert {"role": "tool", "content": "3"} in result.messages
    assert result.token_usage.total_tokens == 4
    given.trajectory[0].metadata["late"] = True
    assert run.trajectory[2].metadata == {}


# Messages, model calls and tokens


def test_messages(run: TrajectoryCollector) -> None:
    """The user's message and the answer are in the conversation once each."""
    run.message("assistant", [{"type": "text"}], name="planner")
    run.say("Done")
    run.message("assistant", "Done")
    result = finished(run)
    assert result.messages == [
        {"role": "user", "content": "Two tickets, please"},
        {"role": "assistant", "content": '[{"type": "text"}]', "name": "planner"},
        {"role": "assistant", "content": "Done"},
    ]


def test_node_responses(run: TrajectoryCollector) -> None:
    """A call of a model is final when it asks for no tool."""
    usage = TokenUsage(input_tokens=5, output_tokens=1)
    run.node_response("MAIN", input_messages=[{"role": "user"}], tool_call_names=["t"], token_usage=usage)
    run.node_response("MAIN", input_messages=["bare"], response_text={"a": 1}, token_usage={"output_tokens": 4})  # type: ignore[list-item,arg-type]
    first, second = run.node_responses
    assert (first.has_tool_calls, first.is_final, first.tool_call_names) == (True, False, ["t"])
    assert (second.is_final, second.response_text, second.input_messages) == (True, '{"a": 1}', [{"content": "bare"}])
    run.tokens(TokenUsage(input_tokens=10))
    assert finished(run).token_usage.total_tokens == 20


def test_turns(run: TrajectoryCollector) -> None:
    """Each turn has its own question, evidence and answer."""
    run.node("A")
    run.say("First")
    run.end_turn()
    run.begin_turn("Next")
    run.tool("t")
    run.end_turn("ValueError: x")
    result = run.execution("ValueError: x")
    first, second = result.turns
    assert (first.user_input, first.agent_response, first.node_visits, first.tool_calls) == (
        "Two tickets, please",
        "First",
        ["A"],
        [],
    )
    assert (second.user_input, second.answered, second.node_visits, second.tool_calls) == (
        "Next",
        False,
        [],
        run.tool_calls,
    )
    assert [(turn.turn_index, turn.outcome, turn.error) for turn in result.turns] == [
        (0, "ok", None),
        (1, "error", "ValueError: x"),
    ]
    assert (result.actual_response, result.error) == ("", "ValueError: x")


def test_without_a_turn() -> None:
    """A collector can be used by hand, and says nothing when nothing was recorded."""
    run = TrajectoryCollector()
    assert (run.final_response, run.duration, run.start_time) == ("", 0.0, None)
    run.say("Hi")
    assert run.final_response == "Hi"


# Events of a runtime


def test_raw_events() -> None:
    """Raw events are kept on demand, and move the clock either way."""
    run, quiet = TrajectoryCollector(capture_all_events=True), TrajectoryCollector()
    for collector in (run, quiet):
        collector.on_event_sync({"n": 1})
        asyncio.run(collector.on_event({"n": 2}))
        asyncio.run(collector.publish({"n": 3}))
        asyncio.run(collector.close())
        collector.sync_close()
        assert collector.start_time is not None
    assert run.events == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert quiet.events == []


def test_to_dict(run: TrajectoryCollector) -> None:
    """The record as JSON values, with the documented keys."""
    run.tool("t", {"x": 1})
    run.say("Hi")
    assert list(run.to_dict()) == [
        "trajectory",
        "tool_calls",
        "node_visits",
        "node_responses",
        "final_response",
        "start_time",
        "end_time",
        "duration",
    ]
    assert run.to_dict()["tool_calls"][0]["args"] == {"x": 1}


# Strangers

RECORDS: dict[str, Record] = {
    "node": lambda run: run.node(Hostile(), meta=Hostile()),  # type: ignore[arg-type]
    "conditional": lambda run: run.conditional(Hostile(), Hostile()),  # type: ignore[arg-type]
    "tool": lambda run: run.tool(Hostile(), {Hostile(): Hostile()}, result=Hostile(), error=Hostile()),  # type: ignore[arg-type]
    "tool call id": lambda run: run.tool("t", call_id=Hostile()),  # type: ignore[arg-type]
    "huge number": lambda run: run.tool("t", {"n": 10**6000}),
    "request_tool": lambda run: run.request_tool("k", Hostile(), Hostile()),  # type: ignore[arg-type]
    "node_response": lambda run: run.node_response(
        Hostile(),  # type: ignore[arg-type]
        input_messages=[Hostile()],  # type: ignore[list-item]
        response_text=Hostile(),
        tool_call_names=[Hostile()],  # type: ignore[list-item]
        token_usage=Hostile(),  # type: ignore[arg-type]
    ),
    "message": lambda run: run.message(Hostile(), Hostile(), extra=Hostile()),  # type: ignore[arg-type]
    "say": lambda run: run.say(Hostile()),
    "piece": lambda run: run.piece(Hostile()),  # type: ignore[arg-type]
    "tokens": lambda run: run.tokens({"input_tokens": "many"}),
    "take": lambda run: run.take(Hostile()),
    "event": lambda run: run.on_event_sync(Hostile()),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_recording_never_raises(run: TrajectoryCollector, record: Record, tmp_path: Path) -> None:
    """Whatever is recorded, the agent goes on and the report can be written and read."""
    record(run)
    result = finished(run)
    case = EvalCaseResult(
        eval_id="c",
        passed=True,
        outcome=Outcome.PASSED,
        actual_trajectory=result.trajectory,
        actual_tool_calls=result.tool_calls,
        actual_response=result.actual_response,
        messages=result.messages,
        node_responses=result.node_responses,
        node_visits=result.node_visits,
        turn_results=result.turns,
    )
    EvalReport.create("s", [case]).to_file(tmp_path / "r.json")
    assert EvalReport.from_file(tmp_path / "r.json").results[0] == case


def test_tokens_that_are_no_numbers(run: TrajectoryCollector) -> None:
    """What could not be recorded is noted, so that the case can say so."""
    run.tokens({"input_tokens": "many"})
    run.observer_failed(RuntimeError("lost"))
    assert run.failures == ["ValueError: invalid literal for int() with base 10: 'many'", "RuntimeError: lost"]


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_nothing_is_recorded_after_the_end(run: TrajectoryCollector, record: Record) -> None:
    """What a late thread still reports is dropped."""
    open_call = run.tool("slow")
    run.finish()
    before = run.to_dict(), list(run.messages), list(run.events)
    record(run)
    with open_call:
        open_call.result, open_call.error = "late", "late"
    assert (run.to_dict(), run.messages, run.events) == before


def test_reset(run: TrajectoryCollector) -> None:
    """Everything is forgotten, the end included."""
    run.node("A")
    run.tool("t")
    run.say("Hi")
    run.finish()
    run.reset()
    assert run.to_dict() == TrajectoryCollector().to_dict()
    run.node("B")
    assert run.node_visits == ["B"]


def test_threads(run: TrajectoryCollector) -> None:
    """Tools that run in threads of their own lose no call."""
    threads = [
        threading.Thread(target=lambda name=f"t{number}": [run.tool(name) for _ in range(50)]) for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(run.tool_calls) == len(run.trajectory) == 400
