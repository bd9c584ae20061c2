"""Functions that are told how a run goes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.dataset import EvalCase
from agentflow_eval.engine.hooks import EvalHooks, RunEvent
from agentflow_eval.errors import UsageError
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import EvalCaseResult, EvalReport
from tests.engine.runs import case, config, eval_set, ok, outcomes, run, talk

Told = list[tuple[Any, ...]]


def watched(agent: Any, *cases: EvalCase, hooks: EvalHooks, **settings: Any) -> EvalReport:
    """The report of a run with hooks."""
    return run(agent, *cases, named={"hooks": hooks}, **settings)


def noting(told: Told) -> EvalHooks:
    """Hooks that note what they are told."""

    async def on_case_end(one: EvalCase, result: EvalCaseResult) -> None:
        await asyncio.sleep(0)
        told.append(("end", one.eval_id, result.outcome.value))

    return EvalHooks(
        on_case_start=lambda one: told.append(("start", one.eval_id)),
        on_case_end=on_case_end,
        on_run_event=lambda one, event: told.append((event.kind, event.eval_id, event.name or event.text)),
    )


def working(text: str, run: TrajectoryCollector) -> str:
    """An agent that runs in a worker thread."""
    run.node("MAIN")
    with run.tool("look", {"n": 1}, call_id="x") as call:
        call.result = 7
    return "ok"


async def working_async(text: str, run: TrajectoryCollector) -> str:
    """An agent that runs on the event loop."""
    return working(text, run)


@pytest.mark.parametrize("agent", [working, working_async])
def test_everything_is_told_in_order(agent: Any) -> None:
    """Hooks get the start, each record as it happens, and the result; skipped cases end without a start."""
    told: Told = []
    watched(agent, talk("hi", "you"), case("c2", skip="later"), hooks=noting(told))
    turn = [("node", "c1", "MAIN"), ("tool_start", "c1", "look"), ("tool_end", "c1", "look"), ("answer", "c1", "ok")]
    assert told == [
        ("start", "c1"),
        ("turn", "c1", "hi"),
        *turn,
        ("turn", "c1", "you"),
        *turn,
        ("end", "c1", "passed"),
        ("end", "c2", "skipped"),
    ]


def test_what_events_hold() -> None:
    """A tool event has arguments, result or error and id; every event has attempt, turn and time."""
    events: list[RunEvent] = []
    failures = iter([True, False])

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.tool("done", {"a": 1}, result=2, call_id="id")
        run.tool("broken", error="no")
        run.tool("open").error = OSError("late")
        late = run.tool("late")
        late.result = 3
        late.error = "told once"
        run.tool("silent")
        assert (late.result, late.error) == (3, "told once")
        if next(failures):
            raise OSError("once")
        return "ok"

    watched(agent, hooks=EvalHooks(on_run_event=lambda one, event: events.append(event)), retries=1)
    tools = [event for event in events if event.attempt == 2 and event.kind.startswith("tool")]
    assert [(e.kind, e.name, e.args, e.result, e.error, e.call_id) for e in tools] == [
        ("tool_start", "done", {"a": 1}, None, None, "id"),
        ("tool_end", "done", {"a": 1}, 2, None, "id"),
        ("tool_start", "broken", {}, None, None, None),
        ("tool_end", "broken", {}, None, "no", None),
        ("tool_start", "open", {}, None, None, None),
        ("tool_end", "open", {}, None, "OSError: late", None),
        ("tool_start", "late", {}, None, None, None),
        ("tool_end", "late", {}, 3, None, None),
        ("tool_start", "silent", {}, None, None, None),
    ]
    assert {event.turn_index for event in events} == {0}
    assert [event.timestamp for event in events] == sorted(event.timestamp for event in events)
    assert events[0].timestamp > 0


def test_hooks_are_told_in_one_thread() -> None:
    """Events of an agent in a worker thread reach the hook in the thread of the loop."""
    threads: set[int] = set()
    hooks = EvalHooks(on_run_event=lambda one, event: threads.add(threading.get_ident()))
    watched(working, hooks=hooks)
    assert threads == {threading.get_ident()}


def test_nothing_is_told_after_the_end() -> None:
    """What a late thread records is not part of the run."""
    told: list[str] = []
    kept: list[Any] = []

    async def agent(text: str, run: TrajectoryCollector) -> str:
        kept.append((run, run.tool("open")))
        return "ok"

    watched(agent, hooks=EvalHooks(on_run_event=lambda one, event: told.append(event.kind)))
    recorder, record = kept[0]
    recorder.node("late")
    recorder.tool("late")
    record.result = 1
    assert told == ["turn", "tool_start", "answer"]


def test_a_turn_without_an_answer() -> None:
    """No answer is told when there was none."""
    told: Told = []

    async def silent(text: str) -> None:
        return None

    watched(silent, hooks=noting(told))
    assert [entry[0] for entry in told] == ["start", "turn", "end"]


def test_errors_of_hooks_change_no_verdict() -> None:
    """What hooks raise is noted beside the verdict, once for each kind."""

    def on_case_start(one: EvalCase) -> None:
        raise OSError("start")

    async def on_case_end(one: EvalCase, result: EvalCaseResult) -> None:
        raise SystemExit(3)

    def on_run_event(one: EvalCase, event: RunEvent) -> None:
        raise ValueError("event")

    report = watched(working_async, hooks=EvalHooks(on_case_start, on_case_end, on_run_event))
    assert outcomes(report) == ["passed"]
    assert report.gate_passed
    assert report.results[0].side_errors == [
        "hook: on_case_start raised OSError: start",
        "hook: on_run_event raised ValueError: event (5 times)",
        "hook: on_case_end raised SystemExit: 3",
    ]


def test_asynchronous_hooks_get_events_in_order() -> None:
    """Events wait for the one before, and the result comes after the last of them."""
    told: list[str] = []

    async def on_run_event(one: EvalCase, event: RunEvent) -> None:
        await asyncio.sleep(0.002 if event.kind == "turn" else 0)
        told.append(event.kind)
        if event.kind == "node":
            raise ValueError("event")

    hooks = EvalHooks(on_run_event=on_run_event, on_case_end=lambda one, result: told.append("end"))
    report = watched(working, hooks=hooks)
    assert told == ["turn", "node", "tool_start", "tool_end", "answer", "end"]
    assert report.results[0].side_errors == ["hook: on_run_event raised ValueError: event"]


def test_asynchronous_hooks_have_bounded_time() -> None:
    """An asynchronous hook that hangs is stopped."""

    async def hangs(*_args: Any) -> None:
        await asyncio.sleep(60)

    report = watched(ok, hooks=EvalHooks(on_case_start=hangs, on_run_event=hangs), fixture_timeout=0.05)
    assert (outcomes(report), report.results[0].side_errors) == (
        ["passed"],
        ["hook: on_case_start timed out after 0.05 s", "hook: on_run_event timed out after 0.05 s (2 times)"],
    )


def test_a_cancelled_run_drops_what_was_not_told() -> None:
    """Events that wait for an asynchronous hook when the run is cancelled are dropped without a trace."""

    async def agent(text: str, run: TrajectoryCollector) -> str:
        working(text, run)
        await asyncio.sleep(60)
        return "ok"

    async def hangs(one: EvalCase, event: RunEvent) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        for hook in (hangs, lambda one, event: asyncio.get_running_loop().create_future()):
            evaluator = AgentEvaluator(agent, config=config(), hooks=EvalHooks(on_run_event=hook))
            task = asyncio.create_task(evaluator.evaluate(eval_set(case())))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_what_a_hook_prints_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints of hooks go to the terminal, not to the agent's output."""
    report = watched(working, hooks=EvalHooks(on_run_event=lambda one, event: print(event.kind)))
    assert capsys.readouterr().out.split() == ["turn", "node", "tool_start", "tool_end", "answer"]
    assert report.results[0].stdout == ""


def test_one_case() -> None:
    """`evaluate_case` tells the hooks too."""
    told: Told = []
    evaluator = AgentEvaluator(ok, config=config(), hooks=noting(told))
    asyncio.run(evaluator.evaluate_case(case()))
    assert [entry[0] for entry in told] == ["start", "turn", "answer", "end"]


def test_hooks_that_will_not_do() -> None:
    """A hook has to be a function, and the hooks an EvalHooks."""
    with pytest.raises(UsageError, match="on_case_end must be a function, got int"):
        EvalHooks(on_case_end=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hooks takes an EvalHooks, got dict"):
        AgentEvaluator(ok, config=config(), hooks={})  # type: ignore[arg-type]


def test_raw_events_are_kept_too() -> None:
    """A collector that keeps raw events still does with hooks."""
    kept: list[TrajectoryCollector] = []

    async def agent(text: str, run: TrajectoryCollector) -> str:
        kept.append(run)
        return "ok"

    collector = TrajectoryCollector(capture_all_events=True)
    hooks = EvalHooks(on_run_event=lambda one, event: None)
    AgentEvaluator(agent, collector, config(), hooks=hooks).run_sync(eval_set(case()))
    assert kept[0].capture_all_events
