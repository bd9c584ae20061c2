"""Agents that are functions."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from agentflow_eval import (
    AgentError,
    AgentEvaluator,
    EvalCase,
    EvalConfig,
    ExecutionResult,
    Invocation,
    MessageContent,
    MissingExtraError,
    Session,
    SessionInput,
    Target,
    TargetError,
    ToolCall,
    TrajectoryCollector,
    Turn,
    adapt,
)
from agentflow_eval.adapters._threads import run_blocking
from agentflow_eval.collector import CURRENT

PARTIAL_TEXT = "hello Ada"


def play(agent: Any, text: str = "Ada", **session: Any) -> TrajectoryCollector:
    """The record of one turn with the agent."""
    target = adapt(agent)
    collector = TrajectoryCollector()
    collector.begin_turn(text)

    async def turn() -> None:
        CURRENT.set(collector)
        await target.run_turn(Turn(0, text, MessageContent.user(text)), Session("thread-1", **session), collector)

    asyncio.run(turn())
    collector.end_turn()
    return collector


# Shapes


def plain(text: str) -> str:
    """A sync agent."""
    return f"hello {text}"


async def waiting(text: str) -> str:
    """An async agent."""
    await asyncio.sleep(0)
    return f"hello {text}"


def pieces(text: str) -> Iterator[str]:
    """A sync agent that streams."""
    yield "hello "
    yield text


async def async_pieces(text: str) -> AsyncIterator[str]:
    """An async agent that streams."""
    yield "hello "
    yield text


def awaitable(text: str) -> Awaitable[str]:
    """A sync function that gives something to wait for."""
    return waiting(text)


def async_iterator(text: str) -> AsyncIterator[str]:
    """A sync function that gives a stream."""
    return async_pieces(text)


async def late_pieces(text: str) -> Iterator[str]:
    """An async function that gives a generator."""
    return pieces(text)


@functools.wraps(waiting)
def blocking(*args: Any, **options: Any) -> str:
    """A sync wrapper of an async function, which runs a loop of its own."""
    return asyncio.run(waiting(*args, **options))


@functools.wraps(waiting)
def passing(*args: Any, **options: Any) -> Any:
    """A sync wrapper that gives what the async function gives."""
    return waiting(*args, **options)


def undecorated(*args: Any, **options: Any) -> str:
    """A wrapper that hides the parameters."""
    return plain(*args, **options)


def by_position(question: str, /) -> str:
    """A function whose parameter has no public name."""
    return plain(question)


def greet(greeting: str, text: str) -> str:
    """Something to bind an argument of."""
    return f"{greeting} {text}"


class Agent:
    """An agent with methods."""

    def answer(self, question: str) -> str:
        """A method."""
        return plain(question)

    async def answer_later(self, question: str) -> str:
        """An async method."""
        return await waiting(question)

    @staticmethod
    def fixed(question: str) -> str:
        """A static method."""
        return plain(question)

    @classmethod
    def shared(cls, question: str) -> str:
        """A class method."""
        return plain(question)


class Callable1:
    """An object that can be called."""

    def __call__(self, text: str) -> str:
        return plain(text)


class AsyncCallable:
    """An object that can be called and waited for."""

    async def __call__(self, text: str) -> str:
        return await waiting(text)


class StreamCallable:
    """An object that streams."""

    async def __call__(self, text: str) -> AsyncIterator[str]:
        yield "hello "
        yield text


SHAPES: list[Any] = [
    plain,
    waiting,
    pieces,
    async_pieces,
    awaitable,
    async_iterator,
    late_pieces,
    blocking,
    passing,
    undecorated,
    by_position,
    lambda text: f"hello {text}",
    lambda anything: plain(anything),
    functools.partial(greet, "hello"),
    functools.partial(greet, greeting="hello"),
    functools.partial(functools.partial(waiting)),
    functools.partial(AsyncCallable()),
    Agent().answer,
    Agent().answer_later,
    Agent.fixed,
    Agent.shared,
    Callable1(),
    AsyncCallable(),
    StreamCallable(),
    functools.lru_cache(plain),
]


@pytest.mark.parametrize("agent", SHAPES, ids=lambda agent: getattr(agent, "__name__", type(agent).__name__))
def test_shapes(agent: Any) -> None:
    """Whatever can be called with a text is an agent."""
    assert play(agent).final_response == PARTIAL_TEXT


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, ""),
        ({"response": "x", "tool_calls": ["find"]}, "x"),
        ({"other": 1}, '{"other": 1}'),
        (ExecutionResult(actual_response="x", tool_calls=[ToolCall(name="find")]), "x"),
        (5, "5"),
        (b"\x00\x02", "b64:AAI="),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_answers(answer: Any, text: str, is_async: bool) -> None:
    """An agent may return text, evidence with it, anything else, or nothing."""

    async def waiting_agent(text: str) -> Any:
        return answer

    run = play(waiting_agent if is_async else lambda text: answer)
    assert run.final_response == text


def test_pieces_and_a_whole() -> None:
    """A stream may end with the evidence."""

    async def agent(text: str) -> AsyncIterator[Any]:
        yield "he"
        yield "llo"
        yield {"response": "hello!", "tool_calls": ["find"], "node_visits": ["A"]}

    run = play(agent)
    assert (run.final_response, run.get_tool_names(), run.node_visits) == ("hello!", ["find"], ["A"])


def test_wrong_evidence() -> None:
    """Evidence of the wrong shape is an error that says what it must be."""
    with pytest.raises(AgentError, match='node_visits = "MAIN"; it must be a list'):
        play(lambda text: {"response": "x", "node_visits": "MAIN"})


# Parameters


def test_parameters_by_name() -> None:
    """Each known name is filled with its own thing, wherever it stands."""
    seen: dict[str, Any] = {}

    def agent(run: Any, messages: Any, *, session: Any, text: str, temperature: float = 0.5) -> None:
        seen.update(run=run, messages=messages, session=session, text=text, temperature=temperature)

    earlier = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    run = play(agent, "Ada", messages=earlier, user_id="u7", app_name="shop", state={"cart": [1]}, config={"k": 2})
    assert seen["run"] is run
    assert seen["messages"] == [*earlier, {"role": "user", "content": "Ada"}]
    assert seen["session"] == SessionInput(app_name="shop", user_id="u7", state={"cart": [1]}, config={"k": 2})
    assert (seen["text"], seen["temperature"]) == ("Ada", 0.5)


def test_messages_are_a_copy() -> None:
    """An agent that edits the conversation does not change the record."""
    earlier = [{"role": "user", "content": "Hi"}]

    def agent(messages: list[dict[str, Any]]) -> None:
        messages[0]["content"] = "changed"

    play(agent, messages=earlier)
    assert earlier == [{"role": "user", "content": "Hi"}]


def positional(messages: list[Any], query: str, /, run: Any) -> str:
    """Parameters that are filled by position."""
    raise NotImplementedError


def no_parameters() -> str:
    """An agent that hears nothing."""
    return "deaf"


def only_options(**options: Any) -> str:
    """An agent that takes what it gets."""
    return f"got {sorted(options)}"


def starred(*text: str) -> str:
    """An agent with a starred parameter of a known name."""
    return "/".join(text)


def all_by_position(messages: list[Any], text: str, /, run: TrajectoryCollector, missing: str = "x") -> str:
    """Known names by position."""
    return f"{len(messages)} {text} {run.node_visits} {missing}"


@pytest.mark.parametrize(
    ("agent", "answer"),
    [
        (no_parameters, "deaf"),
        (only_options, "got []"),
        (starred, "Ada"),
        (all_by_position, "1 Ada [] x"),
        (lambda question, limit=3: f"{question} {limit}", "Ada 3"),
        (lambda text=None, /, limit=3: f"{text} {limit}", "Ada 3"),
        (lambda run, question=None: f"{question}", "None"),
    ],
)
def test_odd_parameters(agent: Callable[..., str], answer: str) -> None:
    """Parameters that nothing fills keep their defaults."""
    assert play(agent).final_response == answer


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (lambda text, temperature: "", "nothing fills the parameter 'temperature'"),
        (lambda text, *, key: "", "nothing fills the parameter 'key'"),
        (positional, "nothing fills the parameter 'query'"),
        (
            lambda run, question: "",
            "nothing fills the parameter 'question'; an agent function takes any of text, messages",
        ),
        (Agent, "the agent is the class Agent; give an instance of it"),
        (Agent(), "cannot drive tests.adapters.test_function.Agent: an agent is a compiled LangGraph graph"),
        (None, "cannot drive builtins.NoneType"),
        ("pkg:agent", "cannot drive builtins.str"),
        (max, "its parameters cannot be read; wrap it in `def agent"),
    ],
)
def test_what_is_no_agent(agent: Any, message: str) -> None:
    """What cannot be driven is refused before anything runs, with what would do."""
    with pytest.raises(TargetError) as caught:
        adapt(agent)
    assert message in str(caught.value)


def test_options_of_graphs() -> None:
    """Options that a function has no use for are refused."""
    with pytest.raises(TargetError, match="input_key, initial_state only make sense for a graph"):
        adapt(plain, input_key="question", initial_state={"a": 1})
    assert isinstance(adapt(plain, initial_state={}), Target)


def test_targets_are_taken_as_they_are() -> None:
    """Somebody's own target is driven as it is."""

    class Own:
        async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
            collector.say(f"{turn.text} {turn.index} {session.thread_id}")

    own = Own()
    assert adapt(own) is own
    assert play(own).final_response == "Ada 0 thread-1"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="10xgraph can be installed here")
@pytest.mark.parametrize("package", ["tenxgraph", "agentflow"])
def test_runtimes_that_need_a_newer_python(package: str) -> None:
    """Graphs of 10xgraph are known as such, and the message says what they need."""
    graph = type("CompiledGraph", (), {"__module__": f"{package}.graph", "ainvoke": print})()
    with pytest.raises(MissingExtraError, match=r"extra 'agentflow' \(10xgraph\), which needs Python >= 3\.12"):
        adapt(graph)


# Threads and exceptions


@pytest.mark.parametrize("agent", [plain, pieces], ids=["function", "generator"])
def test_sync_agents_run_in_a_daemon_thread(agent: Any) -> None:
    """Blocking code runs beside the loop, in a thread that holds nothing up, and knows its collector."""
    threads: list[threading.Thread] = []
    collectors: list[Any] = []

    def spy(text: str) -> Any:
        threads.append(threading.current_thread())
        collectors.append(CURRENT.get())
        return agent(text)

    run = play(spy)
    assert run.final_response == PARTIAL_TEXT
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon
    assert collectors == [run]


def test_async_agents_run_in_the_loop() -> None:
    """An async agent runs in the loop's own thread, in the context of its case."""
    seen: list[Any] = []

    async def agent(text: str) -> None:
        seen.extend([threading.current_thread() is threading.main_thread(), CURRENT.get()])

    run = play(agent)
    assert seen == [True, run]


@pytest.mark.parametrize("error", [ValueError("down"), SystemExit(2), KeyError("k")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("shape", ["sync", "async", "stream"])
def test_exceptions_come_through(error: BaseException, shape: str) -> None:
    """What the agent raises is the caller's, with the evidence recorded before it."""
    recorded: list[TrajectoryCollector] = []

    def note(run: TrajectoryCollector) -> None:
        recorded.append(run)
        run.tool("find")

    def sync(text: str, run: TrajectoryCollector) -> None:
        note(run)
        raise error

    async def waiting_agent(text: str, run: TrajectoryCollector) -> None:
        sync(text, run)

    def stream(text: str, run: TrajectoryCollector) -> Iterator[str]:
        yield "he"
        sync(text, run)

    agents: dict[str, Any] = {"sync": sync, "async": waiting_agent, "stream": stream}
    with pytest.raises(type(error)):
        play(agents[shape])
    assert recorded[0].get_tool_names() == ["find"]


def test_stop_iteration() -> None:
    """An exception that no future can hold is told in another one."""

    def agent(text: str) -> str:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="a StopIteration was raised"):
        play(agent)


def test_results_that_nobody_waits_for() -> None:
    """A thread that ends after its caller gave up, or after the loop is gone, disturbs nobody."""
    go, ended = threading.Event(), threading.Event()

    def slow() -> None:
        go.wait(10)
        ended.set()

    async def give_up() -> None:
        task = asyncio.ensure_future(run_blocking(slow))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    go.set()
    assert ended.wait(10)


def test_cancelled_while_the_loop_goes_on() -> None:
    """A late result finds its future done and is dropped."""
    go = threading.Event()

    async def give_up() -> str:
        task = asyncio.ensure_future(run_blocking(lambda: go.wait(10)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        go.set()
        return str(await run_blocking(lambda: "next"))

    assert asyncio.run(give_up()) == "next"


def test_idle_threads_serve_again() -> None:
    """Calls one after the other need one thread."""

    async def twice() -> set[int]:
        return {await run_blocking(threading.get_ident) for _ in range(20)}

    assert len(asyncio.run(twice())) <= 2


def test_session_lasts_for_the_conversation() -> None:
    """What an agent puts into its session is there in the next turn, and in no other case."""

    async def agent(text: str, session: SessionInput) -> str:
        session.state["heard"] = [*session.state.get("heard", []), text]
        return ", ".join(session.state["heard"])

    case = EvalCase(eval_id="c", conversation=[Invocation.simple("one"), Invocation.simple("two")])
    evaluator = AgentEvaluator(agent, config=EvalConfig())
    answers = [asyncio.run(evaluator.evaluate_case(case)).actual_response for _ in range(2)]
    assert answers == ["one, two", "one, two"]
