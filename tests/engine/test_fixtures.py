"""What a case needs: set up before its agent, torn down after everything, whatever happened between."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from agentflow_eval.config import CriteriaConfig
from agentflow_eval.dataset import Check, EvalCase
from agentflow_eval.engine.checks import CheckContext
from agentflow_eval.engine.fixtures import FixtureContext
from agentflow_eval.errors import TargetError
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import ErrorKind, EvalCaseResult, Outcome
from tests.engine.runs import case, config, eval_set, ok, outcomes, run, run_one

Log = list[str]


def noting(log: Log, name: str) -> Callable[[], contextlib.AbstractContextManager[str]]:
    """A fixture that notes when it is set up and torn down."""

    @contextlib.contextmanager
    def fixture() -> Iterator[str]:
        log.append(f"+{name}")
        yield name
        log.append(f"-{name}")

    return fixture


def with_fixtures(
    fixtures: Mapping[str, Any], agent: Any = ok, check: Any = None, one: EvalCase | None = None, **settings: Any
) -> EvalCaseResult:
    """The result of a case that names all of the fixtures."""
    checks = {"checks": [Check(name="own")]} if check else {}
    one = (one or case()).model_copy(update={"fixtures": list(fixtures), **checks})
    return run_one(agent, one, named={"fixtures": fixtures, "checks": {"own": check or ok}}, **settings)


def value_of(fixture: Any) -> Any:
    """What a check finds as the value of a fixture."""
    seen: list[Any] = []
    result = with_fixtures({"it": fixture}, check=lambda ctx: seen.append(ctx.fixtures["it"]))
    assert result.passed, result.error
    return seen[0]


def a_function() -> str:
    return "value"


async def a_coroutine() -> str:
    await asyncio.sleep(0)
    return "value"


def a_generator() -> Iterator[str]:
    yield "value"


async def an_async_generator() -> AsyncIterator[str]:
    yield "value"


class AManager:
    def __enter__(self) -> str:
        return "value"

    def __exit__(self, *_raised: object) -> None: ...


class AnAsyncManager:
    def __init__(self) -> None:
        asyncio.get_running_loop()

    async def __aenter__(self) -> str:
        return "value"

    async def __aexit__(self, *_raised: object) -> None: ...


@pytest.mark.parametrize(
    "fixture",
    [
        a_function,
        lambda: a_function(),
        lambda: a_coroutine(),
        a_coroutine,
        a_generator,
        an_async_generator,
        contextlib.contextmanager(a_generator),
        contextlib.asynccontextmanager(an_async_generator),
        lambda: contextlib.nullcontext("value"),
        AManager,
        AManager(),
        AnAsyncManager,
    ],
)
def test_kinds(fixture: Any) -> None:
    """A fixture is a function, sync or async, a generator of one value, or a context manager."""
    assert value_of(fixture) == "value"


@pytest.mark.parametrize("value", [Path("x"), MagicMock(), None, threading.Lock()])
def test_values_are_not_entered(value: Any) -> None:
    """What a function returns is the value, also when it could be entered but was not made for that."""
    assert value_of(lambda: value) is value


def test_a_class_of_the_standard_library() -> None:
    """A context manager class will do by its name; what it made is gone afterwards."""
    folder = value_of(tempfile.TemporaryDirectory)
    assert isinstance(folder, str)
    assert not Path(folder).exists()


def test_order() -> None:
    """Fixtures are set up in file order, then the agent runs, then the checks, then they are torn down in reverse."""
    log: Log = []

    async def agent(text: str) -> str:
        log.append("agent")
        return "ok"

    with_fixtures({"a": noting(log, "a"), "b": noting(log, "b")}, agent, lambda ctx: log.append("check"))
    assert log == ["+a", "+b", "agent", "check", "-b", "-a"]


def test_parameters_are_filled_by_name() -> None:
    """A fixture gets the case, the context, the earlier fixtures, and each of those by its name."""
    seen: list[Any] = []

    def first(case: EvalCase, *rest: Any, other: int = 3, **more: Any) -> str:
        return f"first of {case.eval_id}{other}{rest}{more}"

    def second(first: str, ctx: FixtureContext, fixtures: Mapping[str, Any]) -> None:
        seen.extend([first, ctx.case.eval_id, ctx.fixtures, fixtures])

    assert with_fixtures({"first": first, "second": second}).passed
    made = "first of c13(){}"
    assert seen == [made, "c1", {"first": made}, {"first": made}]


def test_an_unfilled_parameter_breaks_the_case() -> None:
    """A fixture that asks for what nobody has says what there is."""
    result = with_fixtures({"a": a_function, "b": lambda c: None})
    assert result.error == (
        "fixture 'b': UsageError: nothing fills its parameter 'c'; it may take any of ctx, case, fixtures, a"
    )


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_agents_get_fixtures(kind: str) -> None:
    """A function agent takes all fixtures as `fixtures`, and each by its name."""
    seen: list[Any] = []

    async def agent(db: str, text: str, fixtures: dict[str, Any]) -> str:
        seen.extend([db, text, fixtures])
        return "ok"

    def sync_agent(text: str, db: str, fixtures: dict[str, Any] | None = None) -> str:
        seen.extend([db, text, fixtures])
        return "ok"

    assert with_fixtures({"db": a_function}, agent if kind == "async" else sync_agent).passed
    assert seen == ["value", "hi", {"db": "value"}]


def test_an_agent_without_its_fixture() -> None:
    """A case that does not name what the agent's parameter asks for is broken, and says so."""

    async def agent(text: str, db: str) -> str:
        return "ok"

    named = {"fixtures": {"db": a_function, "x": a_function}}
    report = run(agent, case(), case("c2", fixtures=["x"]), named=named)
    assert [r.error for r in report.results] == [
        "AgentError: the agent needs the fixture 'db', and the case does not name it (its fixtures: none)",
        "AgentError: the agent needs the fixture 'db', and the case does not name it (its fixtures: x)",
    ]
    with pytest.raises(TargetError, match="nothing fills the parameter 'db'"):
        run(agent, case())


def broken() -> None:
    raise OSError("no disk")


@contextlib.contextmanager
def breaks_later() -> Iterator[str]:
    yield "value"
    raise OSError("still open")


def test_a_broken_setup() -> None:
    """A fixture that cannot be set up breaks its case: no agent, no checks, and the earlier ones are torn down."""
    log: Log = []

    async def agent(text: str) -> str:
        log.append("agent")
        return "ok"

    fixtures = {"a": noting(log, "a"), "b": broken, "c": noting(log, "c")}
    result = with_fixtures(fixtures, agent, lambda ctx: log.append("check"))
    assert log == ["+a", "-a"]
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.FIXTURE)
    assert result.error == "fixture 'b': OSError: no disk"
    assert "in broken" in (result.error_traceback or "")
    assert [r.not_reached for r in result.criterion_results] == [True, True]
    assert [turn.outcome for turn in result.turn_results] == ["not_run"]


@pytest.mark.parametrize("exc", [SystemExit(1), asyncio.CancelledError(), StopIteration(), GeneratorExit()])
def test_whatever_a_fixture_raises(exc: BaseException) -> None:
    """Nothing that a fixture raises ends the run."""

    async def fixture() -> None:
        raise exc

    def sync_fixture() -> None:
        raise exc

    for function in (fixture, sync_fixture):
        named = {"fixtures": {"x": function}}
        assert outcomes(run(ok, case(fixtures=["x"]), case("c2"), named=named)) == ["error", "passed"]


def test_a_broken_teardown_breaks_a_passed_case() -> None:
    """A case that passed is an error when a fixture cannot be torn down, and the others are torn down all the same."""
    log: Log = []
    result = with_fixtures({"a": noting(log, "a"), "b": breaks_later})
    assert log == ["+a", "-a"]
    assert (result.outcome, result.passed, result.error_kind) == (Outcome.ERROR, False, ErrorKind.FIXTURE)
    assert result.error == "fixture 'b': OSError: still open (while it was torn down)"
    assert result.explanation() == [result.error]
    assert result.criterion_results[0].passed


def test_a_broken_teardown_hides_no_failure() -> None:
    """A case that failed stays failed, one that broke keeps why, and both say what else went wrong."""

    async def breaks(text: str) -> str:
        raise OSError("down")

    failed = with_fixtures({"b": breaks_later}, one=case(answer="other"))
    assert (failed.outcome, failed.error_kind, failed.error) == (Outcome.FAILED, None, None)
    assert failed.side_errors == ["fixture: fixture 'b': OSError: still open (while it was torn down)"]
    assert failed.explanation()[1:] == failed.side_errors
    result = with_fixtures({"b": breaks_later}, breaks)
    assert (result.error_kind, result.error) == (ErrorKind.AGENT, "OSError: down")
    assert result.side_errors == failed.side_errors


def test_teardown_after_a_timeout() -> None:
    """A case that timed out is torn down."""
    log: Log = []

    async def agent(text: str) -> str:
        await asyncio.sleep(60)
        return "ok"

    result = with_fixtures({"a": noting(log, "a")}, agent, timeout=0.05)
    assert (result.error_kind, log) == (ErrorKind.TIMEOUT, ["+a", "-a"])


def test_teardown_when_the_run_is_cancelled() -> None:
    """Cancelling the run tears down what is set up, also while the next fixture is being set up."""
    log: Log = []

    async def agent(text: str) -> str:
        await asyncio.sleep(60)
        return "ok"

    async def never() -> None:
        await asyncio.sleep(60)

    async def main(fixtures: Mapping[str, Any]) -> None:
        evaluator = AgentEvaluator(agent, config=config(), fixtures=fixtures)
        task = asyncio.create_task(evaluator.evaluate(eval_set(case(fixtures=list(fixtures)))))
        while not log:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert evaluator.report is not None
        assert evaluator.report.results[0].error_kind is ErrorKind.CANCELLED

    for more in ({}, {"b": never}):
        log.clear()
        asyncio.run(main({"a": noting(log, "a"), **more}))
        assert log == ["+a", "-a"]


@pytest.mark.parametrize("kind", ["sync", "async", "stubborn"])
def test_setup_takes_bounded_time(kind: str) -> None:
    """A fixture that hangs is out of time; what it still gives later is closed, the earlier ones are torn down."""
    log: Log = []
    go_on, closed = threading.Event(), threading.Event()

    async def hangs() -> None:
        await asyncio.sleep(60)

    async def stubborn() -> None:
        while not go_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    @contextlib.contextmanager
    def blocks() -> Iterator[None]:
        go_on.wait(60)
        yield
        closed.set()

    function = {"sync": blocks, "async": hangs, "stubborn": stubborn}[kind]
    started = time.perf_counter()
    evaluator = AgentEvaluator(ok, config=config(fixture_timeout=0.4), fixtures={"a": noting(log, "a"), "b": function})

    async def main() -> None:
        report = await evaluator.evaluate(eval_set(case(fixtures=["a", "b"])))
        result = report.results[0]
        wanted = "ignored its cancellation after 0.4 s" if kind == "stubborn" else "timed out after 0.4 s"
        assert (result.error_kind, result.error) == (ErrorKind.FIXTURE, f"fixture 'b': {wanted}")
        assert log == ["+a", "-a"]
        go_on.set()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert time.perf_counter() - started < 15
    assert kind != "sync" or closed.wait(10)


def test_teardown_takes_bounded_time() -> None:
    """A fixture that hangs while it is torn down is left to itself, and the others are torn down."""
    log: Log = []
    go_on = threading.Event()

    @contextlib.asynccontextmanager
    async def hangs() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(60)

    @contextlib.asynccontextmanager
    async def stubborn() -> AsyncIterator[None]:
        yield
        while not go_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    fixtures = {"a": noting(log, "a"), "b": stubborn, "c": hangs}
    evaluator = AgentEvaluator(ok, config=config(fixture_timeout=0.4), fixtures=fixtures)

    async def main() -> EvalCaseResult:
        report = await evaluator.evaluate(eval_set(case(fixtures=list(fixtures))))
        go_on.set()
        return report.results[0]

    result = asyncio.run(main())
    assert log == ["+a", "-a"]
    assert result.side_errors == [
        "fixture: fixture 'c': timed out after 0.4 s (while it was torn down)",
        "fixture: fixture 'b': ignored its cancellation and was left to itself",
    ]


def test_one_thread_and_one_task() -> None:
    """Blocking fixtures, sync agents and sync checks of a case share a thread, async fixtures a task."""
    tasks: list[Any] = []

    @contextlib.contextmanager
    def db() -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(":memory:")  # usable in its own thread only
        connection.execute("create table t (n)")
        yield connection
        connection.close()

    @contextlib.asynccontextmanager
    async def scope() -> AsyncIterator[None]:
        tasks.append(asyncio.current_task())
        yield
        tasks.append(asyncio.current_task())

    def agent(text: str, db: sqlite3.Connection) -> str:
        db.execute("insert into t values (7)")
        return "ok"

    def check(ctx: CheckContext) -> bool:
        return list(ctx.fixtures["db"].execute("select n from t")) == [(7,)]

    for _ in range(20):
        result = with_fixtures({"db": db, "scope": scope}, agent, check)
        assert result.passed, result.explanation()
    assert tasks[0] is tasks[1]


def test_every_attempt_has_its_own() -> None:
    """Every trial and every retry sets its own fixtures up; cases at the same time do not share them."""
    made: list[object] = []
    failures = iter([True, False])

    def fixture() -> object:
        made.append(object())
        return made[-1]

    async def agent(text: str, it: object) -> str:
        if next(failures, False):
            raise OSError("once")
        return "ok"

    assert with_fixtures({"it": fixture}, agent, retries=1, one=case(trials=3)).passed
    assert len(set(made)) == 4
    cases = [case(f"c{n}", fixtures=["it"]) for n in range(8)]
    assert set(outcomes(run(agent, *cases, named={"fixtures": {"it": fixture}}, parallel=True))) == {"passed"}
    assert len(set(made)) == 12


def test_retries_tell_of_teardowns() -> None:
    """What a fixture said while an earlier attempt was torn down is among the errors of that attempt."""
    failures = iter([True, False])
    teardowns = iter([True, False])

    @contextlib.contextmanager
    def fixture() -> Iterator[None]:
        yield
        if next(teardowns):
            raise OSError("open")

    async def agent(text: str) -> str:
        if next(failures):
            raise OSError("once")
        return "ok"

    result = with_fixtures({"it": fixture}, agent, retries=1)
    assert (result.passed, result.side_errors) == (True, [])
    assert result.retried_errors == ["OSError: once; fixture: fixture 'it': OSError: open (while it was torn down)"]


def test_trials_tell_of_teardowns() -> None:
    """A case of several trials says what went wrong beside any of them."""
    result = with_fixtures({"it": breaks_later}, one=case(trials=2, answer="other"))
    assert len(result.side_errors) == 2


def test_prints_of_fixtures_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """What a fixture prints belongs to its case, and it records nothing in the run."""

    def fixture() -> Iterator[None]:
        print("up")
        yield
        print("down")

    result = with_fixtures({"it": fixture})
    assert (result.stdout, capsys.readouterr().out) == ("up\ndown\n", "")


def test_a_mock_run_sets_nothing_up() -> None:
    """In a mock run there is nothing that would need a fixture."""
    result = run_one(None, case(fixtures=["x"]), named={"fixtures": {"x": broken}}, mock_mode=True)
    assert result.passed


def test_skipped_cases_set_nothing_up() -> None:
    """A skipped case needs nothing."""
    log: Log = []
    run(ok, case(fixtures=["x"], skip="later"), named={"fixtures": {"x": noting(log, "x")}})
    assert log == []


def test_unused_fixtures_are_not_set_up() -> None:
    """Only the cases that name a fixture have it."""
    log: Log = []
    assert outcomes(run(ok, named={"fixtures": {"x": noting(log, "x")}}, criteria=CriteriaConfig())) == ["error"]
    assert log == []
