"""Asks a judge: one protocol for any model, several samples, one tally of what was spent."""

from __future__ import annotations

import asyncio
import inspect
import json
import statistics
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from agentflow_eval._files import printable
from agentflow_eval.errors import JudgeError, UsageError, exception_text
from agentflow_eval.judge._loose import UnusableReplyError
from agentflow_eval.judge._prompts import Prompt
from agentflow_eval.judge._reading import Scale, Verdict, read_verdict
from agentflow_eval.judge.cache import JudgeCache
from agentflow_eval.result import NO_TOKENS, TokenUsage

Aggregate = Literal["mean", "median", "majority"]
Result = TypeVar("Result")

_GRACE_SECONDS = 1.0
"""How long a cancelled judge may clean up before it is left to itself."""


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """What a judge is asked.

    Attributes:
        messages: ``{"role", "content"}``: the instructions (system), then the question (user), and after an unusable
            reply that reply and what was wrong with it.
        schema: JSON Schema of the verdict; a judge may ask its model for it, nobody trusts it.
        sample: Which of several independent samples this is, from 0.
        model: The model that the criterion names.
        temperature: Instead of the run's; None takes that.
        thinking_budget: Tokens the model may think, where its provider knows such a limit; None leaves it alone.
    """

    messages: tuple[dict[str, str], ...]
    schema: dict[str, Any]
    sample: int = 0
    model: str = ""
    temperature: float | None = None
    thinking_budget: int | None = None

    @property
    def prompt(self) -> str:
        """The messages as one text."""
        return "\n\n".join(message["content"] for message in self.messages)


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """What a judge answered.

    Attributes:
        text: The reply as it came.
        token_usage: Tokens it took; zero when unknown.
        attempts: Calls that were needed, retries included.
        model: The model that answered, when the provider says so.
    """

    text: str
    token_usage: TokenUsage = NO_TOKENS
    attempts: int = 1
    model: str = ""


@runtime_checkable
class Judge(Protocol):
    """A model that judges."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The reply to one request.

        Raises:
            JudgeError: There is no reply; the message says why and what to do.
        """


class NoReplyError(JudgeError):
    """A judge was asked and gave no reply.

    Attributes:
        attempts: Calls that were made.
        token_usage: Tokens they took all the same.
    """

    def __init__(self, message: str, attempts: int = 1, token_usage: TokenUsage = NO_TOKENS) -> None:
        super().__init__(message)
        self.attempts = attempts
        self.token_usage = token_usage


class FunctionJudge:
    """A judge that is an async function of ``prompt`` (or of ``request``).

    It returns text, an object that is the verdict, a `JudgeReply`, or ``(text, input_tokens, output_tokens)``.
    """

    def __init__(self, function: Callable[[Any], Awaitable[Any]]) -> None:
        self._function = function
        self._takes_request = "request" in inspect.signature(function).parameters

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Calls the function."""
        return _as_reply(await self._function(request if self._takes_request else request.prompt))


def _as_reply(answer: object) -> JudgeReply:
    """What a judge returned, as a reply with text that can be stored.

    Raises:
        JudgeError: It is nothing that a judge returns.
    """
    if isinstance(answer, JudgeReply):
        return _checked(answer)
    text, tokens = answer, NO_TOKENS
    if isinstance(answer, tuple) and len(answer) == 3 and _is_count(answer[1]) and _is_count(answer[2]):
        text, tokens = answer[0], TokenUsage(input_tokens=answer[1], output_tokens=answer[2])
    if isinstance(text, Mapping):
        try:
            text = json.dumps(dict(text), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as exc:
            raise JudgeError(f"the judge returned an object that is not JSON: {exception_text(exc)}") from exc
    if isinstance(text, str):
        return JudgeReply(printable(str(text)), tokens)
    raise JudgeError(f"the judge returned {type(answer).__name__}; it returns text or (text, tokens in, tokens out)")


def _checked(reply: JudgeReply) -> JudgeReply:
    text: object = reply.text
    tokens: object = reply.token_usage
    if not isinstance(text, str) or not isinstance(tokens, TokenUsage) or not _is_count(reply.attempts):
        kinds = f"text {type(text).__name__}, token_usage {type(tokens).__name__}, attempts {reply.attempts!r}"
        raise JudgeError(f"the judge returned a JudgeReply with {kinds}")
    clean = printable(text)
    return reply if clean == text else replace(reply, text=clean)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def as_judge(judge: Judge | Callable[[Any], Awaitable[Any]]) -> Judge:
    """A judge from a `Judge` or an async function.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(judge, type):
        raise UsageError(f"a judge is an instance, got the class {judge.__name__}; write {judge.__name__}()")
    if isinstance(judge, Judge):
        return judge
    if inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(getattr(judge, "__call__", None)):  # noqa: B004
        return FunctionJudge(judge)
    raise UsageError(f"a judge is an async function of the prompt or has `ask`, got {type(judge).__name__}")


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that a judge is asked about a run.

    Attributes:
        prompt: The rendered prompt.
        model: The model to ask.
        samples: How many independent verdicts are wanted.
        scale: What the score means.
        names: Names of the scores; empty for a single one.
        aggregate: How the samples become one score.
        threshold: What ``majority`` counts as a pass.
    """

    prompt: Prompt
    model: str
    samples: int = 1
    scale: Scale = "0-1"
    names: tuple[str, ...] = ()
    aggregate: Aggregate = "mean"
    threshold: float = 0.5


@dataclass(slots=True)
class Sample:
    """One verdict, or why there is none.

    Attributes:
        verdict: None when the judge gave no usable one.
        error: Why there is no verdict.
        replies: Every reply as it came, the repaired one last.
        prompt: The prompt as it was sent.
        token_usage: Tokens it took.
        attempts: Calls that were needed.
        reused: Whether it came from the cache.
    """

    verdict: Verdict | None = None
    error: str | None = None
    replies: list[str] = field(default_factory=list)
    prompt: str = ""
    token_usage: TokenUsage = NO_TOKENS
    attempts: int = 0
    reused: bool = False


@dataclass(slots=True)
class Answer:
    """The samples of one question and what they come to.

    Attributes:
        samples: In order.
        scores: The aggregated score by name.
        spread: Highest minus lowest score of the valid samples.
    """

    samples: list[Sample]
    scores: dict[str, float]
    spread: float

    @property
    def verdicts(self) -> list[Verdict]:
        """The valid verdicts."""
        return [sample.verdict for sample in self.samples if sample.verdict is not None]

    @property
    def score(self) -> float:
        """The only score, or the least of several."""
        return min(self.scores.values())


class NotEnoughVerdictsError(JudgeError):
    """Half or more of the samples gave no usable verdict.

    Attributes:
        samples: All of them.
    """

    def __init__(self, samples: Sequence[Sample], judge: str) -> None:
        self.samples = list(samples)
        valid = sum(sample.verdict is not None for sample in samples)
        reasons = "; ".join(dict.fromkeys(sample.error for sample in samples if sample.error))
        super().__init__(f"judge {judge!r}: {valid} of {len(samples)} samples gave a usable verdict: {reasons}")


@dataclass(slots=True)
class JudgeUse:
    """What the judges of a run did.

    Attributes:
        calls: Requests that were sent, repairs and retries included.
        verdicts: Usable verdicts.
        reused: Verdicts that came from the cache.
        repaired: Verdicts that took a second request.
        errors: Samples without a usable verdict.
    """

    calls: int = 0
    verdicts: int = 0
    reused: int = 0
    repaired: int = 0
    errors: int = 0


class Judges:
    """All judges of a run: one concurrency limit, one time limit per call, one cache, one tally.

    Args:
        resolve: Model name -> judge; called once for each model.
        name: Who judges whatever model is named; None when the model does.
        max_concurrency: Calls under way at once.
        timeout: Seconds for one call, the provider's own retries included.
        open_cache: Opens the verdicts of earlier runs, when first needed.
        replay_only: A verdict that is not in the cache is an error.
        parameters: What else decides a reply, such as the temperature; part of the cache's key.
        prices: Model -> price of a million input and a million output tokens.
        include_io: Whether results keep prompts and raw replies.
    """

    def __init__(
        self,
        resolve: Callable[[str], Judge],
        *,
        name: str | None = None,
        max_concurrency: int = 8,
        timeout: float = 60.0,
        open_cache: Callable[[], JudgeCache] | None = None,
        replay_only: bool = False,
        parameters: Mapping[str, Any] | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        include_io: bool = False,
    ) -> None:
        self._resolve = resolve
        self.name = name
        self._made: dict[str, Judge] = {}
        self._max_concurrency = max_concurrency
        self._limit: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way = 0
        self._timeout = timeout
        self._open_cache = open_cache
        self._cache: JudgeCache | None = None
        self._replay_only = replay_only
        self._parameters = dict(parameters or {})
        self._prices = dict(prices or {})
        self.include_io = include_io
        self.use = JudgeUse()

    async def answer(self, question: Question) -> Answer:
        """All samples of a question, taken at once, and the score they come to.

        Raises:
            NotEnoughVerdictsError: Half or more of the samples gave no usable verdict.
        """
        if question.samples == 1:
            samples = [await self._sample(question, 0)]
        else:
            samples = list(
                await asyncio.gather(*(self._sample(question, number) for number in range(question.samples)))
            )
        valid = [sample.verdict for sample in samples if sample.verdict is not None]
        if 2 * len(valid) <= len(samples):
            raise NotEnoughVerdictsError(samples, self.name or question.model)
        names = question.names or ("score",)
        scores = {name: _aggregated([verdict.scores[name] for verdict in valid], question) for name in names}
        overall = [verdict.score for verdict in valid]
        return Answer(samples, scores, max(overall) - min(overall))

    async def answers(self, questions: Sequence[Question]) -> list[Answer | NotEnoughVerdictsError]:
        """The answer to each question, all asked at once, or why there is none."""
        return await together(self._answer_or_error(question) for question in questions)

    async def _answer_or_error(self, question: Question) -> Answer | NotEnoughVerdictsError:
        try:
            return await self.answer(question)
        except NotEnoughVerdictsError as exc:
            return exc

    async def _sample(self, question: Question, number: int) -> Sample:
        try:
            cache = self._opened_cache()
            if cache is None:
                return await self._asked(question, number)
            decisive = {**self._parameters, "schema": question.prompt.schema}
            key = cache.key(question.model, question.prompt.canonical, decisive, number)
            stored = cache.get(key)
        except JudgeError as exc:
            return self._failed(Sample(error=str(exc)))
        reused = None if stored is None else self._reused(stored, question)
        if reused is not None and reused.verdict is not None:
            return reused
        if self._replay_only:
            return self._failed(
                reused or Sample(error="the verdict is not in the cache, and replay_only asks no judge")
            )
        sample = await self._asked(question, number)
        if sample.verdict is not None:
            self._store(key, sample.replies[-1], replace=stored is not None)
        return sample

    def _opened_cache(self) -> JudgeCache | None:
        if self._cache is None and self._open_cache is not None:
            self._cache = self._open_cache()
        return self._cache

    def _store(self, key: str, reply: str, replace: bool) -> None:
        """Stores a reply; a verdict that was paid for stays good when the disk is full."""
        try:
            cache = self._opened_cache()  # another case may have closed it in the meantime
            if cache is not None:
                cache.put(key, reply, replace)
        except JudgeError as exc:
            warnings.warn(str(exc), RuntimeWarning, stacklevel=2)

    def _reused(self, stored: str, question: Question) -> Sample:
        sample = Sample(replies=[stored], prompt=question.prompt.text, reused=True)
        try:
            sample.verdict = read_verdict(stored, question.scale, question.names, question.prompt)
        except UnusableReplyError as exc:
            sample.error = f"the cached reply is unusable: {exc}"
            return sample
        self.use.verdicts += 1
        self.use.reused += 1
        return sample

    async def _asked(self, question: Question, number: int) -> Sample:
        """A verdict, after one request to repair an unusable reply."""
        sample = Sample(prompt=question.prompt.text)
        messages = question.prompt.messages
        for attempt in (1, 2):
            try:
                request = JudgeRequest(messages, question.prompt.schema, number, question.model)
                reply = await self.ask(request)
            except JudgeError as exc:
                sample.error = str(exc)
                if isinstance(exc, NoReplyError):
                    self._count(sample, exc.attempts, exc.token_usage)
                return self._failed(sample)
            sample.replies.append(reply.text)
            self._count(sample, reply.attempts, reply.token_usage)
            try:
                sample.verdict = read_verdict(reply.text, question.scale, question.names, question.prompt)
            except UnusableReplyError as exc:
                sample.error = printable(str(exc))
                messages = (*messages, *question.prompt.repair(reply.text, sample.error))
                continue
            sample.error = None
            self.use.verdicts += 1
            self.use.repaired += attempt == 2
            return sample
        return self._failed(sample)

    def _count(self, sample: Sample, attempts: int, tokens: TokenUsage) -> None:
        sample.attempts += attempts
        sample.token_usage += tokens
        self.use.calls += attempts

    def _failed(self, sample: Sample) -> Sample:
        self.use.errors += 1
        return sample

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """One reply within the limits.

        Raises:
            JudgeError: Whatever went wrong; the message names the judge.
        """
        limit = self._limit_of_this_loop()
        self._under_way += 1
        try:
            async with limit:
                judge = self._judge(request.model)
                return await _reply_within(self._timeout, judge, request, self.name or request.model)
        finally:
            self._under_way -= 1

    def _limit_of_this_loop(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._limit is None or self._loop is not loop:
            # What another loop left behind is bound to it: connections and waiting calls alike.
            self._loop, self._limit, self._under_way = loop, asyncio.Semaphore(self._max_concurrency), 0
            self._made.clear()
        return self._limit

    def _judge(self, model: str) -> Judge:
        judge = self._made.get(model)
        if judge is None:
            try:
                judge = self._made[model] = self._resolve(model)
            except JudgeError:
                raise
            except Exception as exc:  # such as a missing extra, or an address that is none
                raise JudgeError(f"judge {model!r} cannot be asked: {exception_text(exc)}") from exc
        return judge

    async def close(self) -> None:
        """Closes the judges' connections and the cache; what is asked later opens them again.

        Nothing is closed while calls of another case are under way; whoever ends last closes.
        """
        if self._under_way and self._loop is asyncio.get_running_loop():
            return
        made, self._made, self._limit = list(self._made.values()), {}, None
        if self._cache is not None:
            self._cache.close()
            self._cache = None
        for judge in {id(judge): judge for judge in made}.values():
            try:
                closing = getattr(judge, "close", lambda: None)()
                if inspect.isawaitable(closing):
                    await closing
            except Exception as exc:  # a user's judge may raise anything, and the report is still to be written
                warnings.warn(f"a judge could not be closed: {exception_text(exc)}", RuntimeWarning, stacklevel=2)

    def cost(self, model: str, tokens: TokenUsage) -> float | None:
        """What tokens of a model cost; None when its price is not known."""
        price = self._prices.get(model)
        if price is None:
            return None
        return (tokens.input_tokens * price[0] + tokens.output_tokens * price[1]) / 1_000_000


async def together(work: Iterable[Awaitable[Result]]) -> list[Result]:
    """What each gives, in order; all wait at the same time, within the judges' own limit."""
    return list(await asyncio.gather(*work))


def no_judge(model: str) -> Judge:
    """Resolves nothing: for runs that were given no judge.

    Raises:
        JudgeError: Always.
    """
    raise JudgeError(f"no judge was given for {model!r}")


def _aggregated(scores: Sequence[float], question: Question) -> float:
    if question.aggregate == "median":
        return statistics.median(scores)
    if question.aggregate == "majority":
        passed = sum(score >= question.threshold - 1e-9 for score in scores)
        return 1.0 if 2 * passed > len(scores) else 0.0
    return min(1.0, sum(scores) / len(scores))


async def _reply_within(limit: float, judge: Judge, request: JudgeRequest, name: str) -> JudgeReply:
    """The reply, or `JudgeError` once ``limit`` seconds are over, even if the judge ignores its cancellation."""
    task = asyncio.get_running_loop().create_task(_outcome(judge, request))
    try:
        await asyncio.wait((task,), timeout=limit)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,), timeout=_GRACE_SECONDS)
        raise
    if not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=_GRACE_SECONDS)
        left = "" if task.done() else "; it ignored its cancellation and was left to itself"
        raise NoReplyError(f"judge {name!r} timed out after {limit:g} s{left}")
    outcome = task.result()
    if isinstance(outcome, JudgeReply):
        return outcome
    if isinstance(outcome, NoReplyError):
        raise outcome
    if isinstance(outcome, JudgeError):
        raise NoReplyError(_named(name, str(outcome))) from outcome
    raise NoReplyError(_named(name, f"raised {exception_text(outcome)}")) from outcome


async def _outcome(judge: Judge, request: JudgeRequest) -> JudgeReply | BaseException:
    """What the judge returned or raised; a judge is a stranger, so that even ``SystemExit`` is its own error."""
    try:
        answer: object = judge.ask(request)
        return _as_reply(await answer if inspect.isawaitable(answer) else answer)
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return exc
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        return exc


def _named(name: str, problem: str) -> str:
    return printable(problem if repr(name) in problem else f"judge {name!r}: {problem}")
