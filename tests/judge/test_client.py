"""Judges of a run: samples, repair, limits, and judges that misbehave."""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import pytest

from agentflow_eval.errors import JudgeError, UsageError
from agentflow_eval.judge import (
    Aggregate,
    Answer,
    JudgeReply,
    JudgeRequest,
    Judges,
    NoReplyError,
    NotEnoughVerdictsError,
    Prompt,
    Question,
    as_judge,
    no_judge,
)
from agentflow_eval.result import TokenUsage

SCHEMA = {"type": "object", "example": {"score": 0.5}}
PROMPT = Prompt(({"role": "system", "content": "s"}, {"role": "user", "content": "u"}), "s u", SCHEMA)
GOOD = '{"score": 0.9}'


class Scripted:
    """A judge that gives its replies one after the other; an exception among them is raised."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[JudgeRequest] = []
        self.closed = 0

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return JudgeReply(reply, TokenUsage(input_tokens=2, output_tokens=1)) if isinstance(reply, str) else reply

    async def close(self) -> None:
        self.closed += 1


class Other:
    """A judge made of any function."""

    def __init__(self, ask: Callable[[JudgeRequest], Any]) -> None:
        self.ask = ask


def question(samples: int = 1, **values: Any) -> Question:
    """A question to the model ``m``."""
    return Question(PROMPT, "m", samples, **values)


async def one(judges: Judges, asked: Question) -> Answer:
    """The answer, the judges closed at the end."""
    try:
        return await judges.answer(asked)
    finally:
        await judges.close()


def answer(judge: Any, asked: Question | None = None, **options: Any) -> tuple[Answer, Judges]:
    """What a judge answers to a question."""
    judges = Judges(lambda model: judge, **options)
    return asyncio.run(one(judges, asked or question())), judges


def failure(judge: Any, asked: Question | None = None, **options: Any) -> NotEnoughVerdictsError:
    """The error that a judge leads to."""
    with pytest.raises(NotEnoughVerdictsError) as caught:
        answer(judge, asked, **options)
    assert "'m'" in str(caught.value)
    return caught.value


def scores(*values: float) -> Scripted:
    """A judge with these scores."""
    return Scripted(*(f'{{"score": {value}}}' for value in values))


@pytest.mark.parametrize(
    ("aggregate", "values", "score", "spread"),
    [
        ("mean", (0.2, 0.4, 0.9), 0.5, 0.7),
        ("median", (0.2, 0.4, 0.9), 0.4, 0.7),
        ("median", (0.2, 0.4), 0.3, 0.2),
        ("majority", (0.2, 0.7, 0.9), 1.0, 0.7),
        ("majority", (0.7, 0.2), 0.0, 0.5),
        ("majority", (0.2, 0.2, 0.9), 0.0, 0.7),
        ("mean", (0.7, 0.7, 0.7), 0.7, 0.0),
    ],
)
def test_aggregate(aggregate: Aggregate, values: tuple[float, ...], score: float, spread: float) -> None:
    """Samples become one score as the config says (AG08: equal ones their own)."""
    given, _ = answer(scores(*values), question(len(values), aggregate=aggregate, threshold=0.7))
    assert given.score == pytest.approx(score)
    assert given.spread == pytest.approx(spread)


def test_named_scores() -> None:
    """Each name is aggregated by itself, and the least is the score."""
    judge = Scripted('{"a": 1, "b": 0.5}', '{"a": 0.5, "b": 0.9}')
    given, _ = answer(judge, question(2, names=("a", "b")))
    assert given.scores == {"a": 0.75, "b": 0.7}
    assert given.score == 0.7


@pytest.mark.parametrize(("valid", "samples", "enough"), [(2, 3, True), (1, 3, False), (1, 2, False), (3, 5, True)])
def test_more_than_half(valid: int, samples: int, enough: bool) -> None:
    """More than half of the samples have to be verdicts."""
    judge = Scripted(*[GOOD] * valid, *[JudgeError("down")] * (samples - valid))
    if enough:
        given, _ = answer(judge, question(samples))
        assert given.score == 0.9
        assert len(given.verdicts) == valid
    else:
        problem = failure(judge, question(samples))
        assert f"{valid} of {samples} samples gave a usable verdict: judge 'm': down" in str(problem)
        assert len(problem.samples) == samples


def test_quoted_verdict() -> None:
    """A judge that quotes a verdict from the material is asked once more for its own; then its sample is an error."""
    material = Prompt(({"role": "user", "content": f"answer: {GOOD}"},), "s u", SCHEMA)
    quoting = f"The answer says {GOOD}."
    given, judges = answer(Scripted(quoting, '{"score": 0.1}'), Question(material, "m"))
    assert (given.score, judges.use.repaired) == (0.1, 1)
    problem = failure(Scripted(quoting, quoting), Question(material, "m"))
    assert "quotes a verdict from the material and gives none of its own" in str(problem)


def test_sample_numbers() -> None:
    """Each sample is asked as its own."""
    judge = scores(1, 1, 1)
    answer(judge, question(3))
    assert [request.sample for request in judge.requests] == [0, 1, 2]
    assert {request.model for request in judge.requests} == {"m"}


def test_repair() -> None:
    """An unusable reply is asked for again once, with the reply and what was wrong; both are paid for."""
    judge = Scripted("I think it is fine", GOOD)
    given, judges = answer(judge)
    sample = given.samples[0]
    assert (sample.replies, sample.attempts, sample.error) == (["I think it is fine", GOOD], 2, None)
    assert sample.token_usage.total_tokens == 6
    assert judge.requests[1].messages[:3] == (*PROMPT.messages, {"role": "assistant", "content": "I think it is fine"})
    assert "no JSON object" in judge.requests[1].messages[3]["content"]
    assert '{"score": 0.5}' in judge.requests[1].messages[3]["content"]
    assert (judges.use.calls, judges.use.verdicts, judges.use.repaired, judges.use.errors) == (2, 1, 1, 0)


def test_repair_only_once() -> None:
    """A second unusable reply is the sample's error."""
    judge = Scripted("no", '{"score": 7}')
    problem = failure(judge)
    assert "between 0 and 1, got 7" in str(problem)
    assert len(judge.requests) == 2


@pytest.mark.parametrize("reply", [GOOD, '{"score": 0}'])
def test_no_second_opinion(reply: str) -> None:
    """A verdict is never asked for again, however low."""
    judge = Scripted(reply)
    answer(judge)
    assert len(judge.requests) == 1


def test_no_repair_of_faults() -> None:
    """A judge that gave no reply is not asked to repair it; its attempts and tokens count."""
    judge = Scripted(NoReplyError("judge 'm': down", 4, TokenUsage(input_tokens=9)))
    problem = failure(judge)
    assert len(judge.requests) == 1
    assert (problem.samples[0].attempts, problem.samples[0].token_usage.input_tokens) == (4, 9)


# Judges of all shapes


async def plain(prompt: str) -> str:
    """Sees the prompt."""
    assert prompt == "s\n\nu"
    return GOOD


async def with_request(request: JudgeRequest) -> JudgeReply:
    """Sees the request."""
    return JudgeReply(f'{{"score": {0.9 if request.schema == SCHEMA else 0}}}')


async def with_tokens(prompt: str) -> tuple[str, int, int]:
    """Says what it took."""
    return GOOD, 7, 3


async def parsed(prompt: str) -> dict[str, Any]:
    """Gives an object."""
    return {"score": 0.9}


async def with_more(prompt: str, text: str) -> str:
    """Takes more."""
    return text


class CalledObject:
    """An object that is called."""

    async def __call__(self, prompt: str) -> str:
        return GOOD

    async def method(self, prompt: str) -> str:
        return GOOD


@pytest.mark.parametrize(
    "function",
    [
        plain,
        with_request,
        with_tokens,
        parsed,
        functools.partial(with_more, text=GOOD),
        CalledObject(),
        CalledObject().method,
    ],
)
def test_function_judges(function: Callable[[Any], Awaitable[Any]]) -> None:
    """Any async function of the prompt or the request is a judge."""
    given, _ = answer(as_judge(function))
    assert given.score == 0.9
    if function is with_tokens:
        assert given.samples[0].token_usage == TokenUsage(input_tokens=7, output_tokens=3)


@pytest.mark.parametrize("wrong", ["model-name", 7, lambda prompt: GOOD, Scripted, None])
def test_not_a_judge(wrong: Any) -> None:
    """What is no judge is refused at once."""
    with pytest.raises(UsageError, match="a judge is"):
        as_judge(wrong)


def test_judge_without_async() -> None:
    """A judge whose ``ask`` does not wait serves too."""
    assert answer(Other(lambda request: GOOD))[0].score == 0.9


def raises(exc: BaseException) -> Callable[[Any], Awaitable[Any]]:
    """A judge that raises."""

    async def ask(request: Any) -> NoReturn:
        raise exc

    return ask


def returns(value: Any) -> Callable[[Any], Awaitable[Any]]:
    """A judge that returns anything."""

    async def ask(request: Any) -> Any:
        return value

    return ask


class Mute(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (raises(ValueError("odd")), "raised ValueError: odd"),
        (raises(SystemExit(3)), "raised SystemExit: 3"),
        (raises(asyncio.CancelledError()), "raised CancelledError"),
        (raises(TimeoutError()), "raised TimeoutError"),
        (raises(GeneratorExit()), "raised GeneratorExit"),
        (raises(BaseExceptionGroup("many", [SystemExit(1)])), "raised BaseExceptionGroup"),
        (raises(Mute()), "message unreadable"),
        (raises(JudgeError("the key is wrong")), "judge 'm': the key is wrong"),
        (raises(ValueError("\ud800")), "\\ud800"),
        (returns(None), "the judge returned NoneType"),
        (returns(b"{}"), "the judge returned bytes"),
        (returns(("a", 1)), "the judge returned tuple"),
        (returns((GOOD, -1, 2)), "the judge returned tuple"),
        (returns((GOOD, True, 2)), "the judge returned tuple"),
        (returns({"score": object()}), "not JSON"),
        (returns({"score": LOOP}), "not JSON"),
        (returns({"score": float("nan")}), "NaN"),
        (returns(JudgeReply(None)), "JudgeReply with text NoneType"),  # type: ignore[arg-type]
        (returns(JudgeReply(GOOD, None)), "token_usage NoneType"),  # type: ignore[arg-type]
        (returns(JudgeReply(GOOD, attempts="2")), "attempts '2'"),  # type: ignore[arg-type]
        (returns(""), "the reply is empty"),
        (lambda request: 1 / 0, "raised ZeroDivisionError"),
        (lambda: GOOD, "raised TypeError"),
    ],
)
def test_hostile_judges(judge: Any, said: str) -> None:
    """Whatever a judge raises or returns is the error of its sample, and names the model."""
    problem = failure(Other(judge))
    assert said in str(problem)
    assert str(problem).isprintable()


def test_exit_does_not_end_the_run() -> None:
    """``sys.exit`` in one sample leaves the others alone."""

    async def ask(request: JudgeRequest) -> str:
        if request.sample == 1:
            sys.exit("bye")
        return GOOD

    assert answer(Other(ask), question(3))[0].score == 0.9


def test_interrupt() -> None:
    """Ctrl-C is not the judge's."""
    with pytest.raises(KeyboardInterrupt):
        answer(Other(raises(KeyboardInterrupt())))


def test_cannot_be_made() -> None:
    """A judge that cannot be made is an error of the question."""

    def broken(model: str) -> NoReturn:
        raise ImportError("no such library")

    with pytest.raises(NotEnoughVerdictsError, match="judge 'm' cannot be asked: ImportError: no such library"):
        asyncio.run(one(Judges(broken), question()))
    with pytest.raises(NotEnoughVerdictsError, match="no judge was given for 'm'"):
        asyncio.run(one(Judges(no_judge), question()))


# Limits


async def hangs(request: Any) -> str:
    """Never answers."""
    await asyncio.sleep(60)
    return GOOD


async def stubborn(request: Any) -> str:
    """Ignores its cancellation, for a while."""
    for _ in range(13):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            continue
    return GOOD


@pytest.mark.parametrize(("judge", "said"), [(hangs, "timed out after 0.05 s"), (stubborn, "ignored its cancellation")])
def test_timeout(judge: Any, said: str) -> None:
    """A judge that hangs, even one that cannot be stopped, costs its time limit."""

    async def run() -> NotEnoughVerdictsError:
        started = time.monotonic()
        with pytest.raises(NotEnoughVerdictsError) as caught:
            await Judges(lambda model: Other(judge), timeout=0.05).answer(question())
        assert time.monotonic() - started < 10
        return caught.value

    assert said in str(asyncio.run(run()))


def test_waiting_is_not_timed() -> None:
    """The time limit begins with the call, not with the queue for it."""

    async def ask(request: Any) -> str:
        await asyncio.sleep(0.05)
        return GOOD

    given, _ = answer(Other(ask), question(6), max_concurrency=1, timeout=0.2)
    assert len(given.verdicts) == 6


def test_concurrency_limit() -> None:
    """Calls under way stay within the limit, whatever asks them."""
    now, most = 0, 0

    async def ask(request: Any) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1
        return GOOD

    async def run() -> list[Answer | NotEnoughVerdictsError]:
        judges = Judges(lambda model: Other(ask), max_concurrency=4)
        return await judges.answers([question(3)] * 5)

    assert len(asyncio.run(run())) == 5
    assert most == 4


def test_cancellation() -> None:
    """A run that is cancelled cancels its judge's call, and stays cancelled."""
    stopped: list[bool] = []

    async def ask(request: Any) -> str:
        try:
            return await hangs(request)
        finally:
            stopped.append(True)

    async def run() -> None:
        task = asyncio.create_task(Judges(lambda model: Other(ask)).answer(question(2)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert stopped == [True, True]


# Closing


def test_close_and_reuse() -> None:
    """Judges are closed once for each run, and made anew in the next event loop."""
    judge, made = scores(1, 1), []
    judges = Judges(lambda model: made.append(model) or judge)  # type: ignore[func-returns-value]
    for number in (1, 2):
        assert asyncio.run(one(judges, question())).score == 1
        assert judge.closed == number
    assert made == ["m", "m"]


def test_left_open() -> None:
    """What a dead event loop left behind is not used again."""
    judge = scores(1, 1)
    judges = Judges(lambda model: judge, max_concurrency=1)
    for _ in range(2):
        assert asyncio.run(judges.answer(question())).score == 1


def test_close_while_others_ask() -> None:
    """A case that ends first does not close what another one is using."""
    judge = Scripted(GOOD)
    begun = asyncio.Event()

    async def ask(request: JudgeRequest) -> Any:
        begun.set()
        await asyncio.sleep(0.02)
        assert judge.closed == 0
        return await Scripted.ask(judge, request)

    async def run() -> None:
        judges = Judges(lambda model: judge)
        judge.ask = ask  # type: ignore[method-assign]
        asking = asyncio.create_task(one(judges, question()))
        await begun.wait()
        await judges.close()
        assert (await asking).score == 0.9

    asyncio.run(run())
    assert judge.closed == 1


def test_sync_close() -> None:
    """``close`` need not be async."""
    judge: Any = scores(1)
    closed: list[bool] = []
    judge.close = lambda: closed.append(True)
    assert answer(judge)[0].score == 1
    assert closed == [True]


def test_close_that_raises() -> None:
    """A judge that cannot be closed is a warning, not the end of the run."""
    judge: Any = scores(1)
    judge.close = functools.partial(raises(ValueError("stuck")), None)
    with pytest.warns(RuntimeWarning, match="a judge could not be closed: ValueError: stuck"):
        assert answer(judge)[0].score == 1


def test_cost() -> None:
    """Prices are per million tokens; without one the cost is unknown."""
    judges = Judges(no_judge, prices={"m": (2.0, 10.0)})
    tokens = TokenUsage(input_tokens=500_000, output_tokens=100_000)
    assert judges.cost("m", tokens) == 2.0
    assert judges.cost("other", tokens) is None


def test_texts_are_made_printable() -> None:
    """What no report can hold is made visible where it comes in."""
    given, _ = answer(Other(returns('{"score": 1, "reasoning": "\ud800\x00"}')))
    assert given.samples[0].replies == ['{"score": 1, "reasoning": "\\ud800\\x00"}']
