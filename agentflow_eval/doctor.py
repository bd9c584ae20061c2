"""Tries an agent out with marked conversations and says what is recorded of it and what leaks."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agentflow_eval.config import CriteriaConfig, EvalConfig, ReporterConfig
from agentflow_eval.dataset import EvalCase, EvalSet, Invocation
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import ErrorKind, EvalCaseResult

_BLOCKED_SECONDS = 0.15
_BEAT_SECONDS = 0.01
_NAMES_SHOWN = 8

Level = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: ``runs``, ``answers``, ``nodes``, ``tools``, ``tokens``, ``isolation``, ``memory`` or ``event loop``.
        level: ``ok``; ``note``: cannot be known, or is missing and may not be needed; ``wrong``: verdicts would suffer.
        text: What was seen.
        fix: What would make it right; empty when nothing has to be done.
    """

    topic: str
    level: Level
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found out about an agent.

    Attributes:
        agent: The class that drives it.
        findings: In reading order.
    """

    agent: str
    findings: list[Finding]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.level != "wrong" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as JSON values."""
        return {"healthy": self.healthy, **asdict(self)}


@dataclass(frozen=True, slots=True)
class _Sentinel:
    """A conversation whose every turn holds a word that stands nowhere else."""

    name: str
    words: tuple[str, str]
    result: EvalCaseResult


async def diagnose(
    agent: Any, config: EvalConfig | None = None, message: str = "Hello", timeout: float = 60.0
) -> Diagnosis:
    """Drives one conversation of two turns, then two at the same time, and compares what was recorded.

    Args:
        agent: Anything that `adapt` accepts; None takes the config's ``endpoint``.
        config: Where ``agent_options`` and ``endpoint`` stand; nothing else of it is used.
        message: What the agent is asked; a word that marks the turn is added.
        timeout: Seconds for one conversation.

    Raises:
        TargetError: The agent cannot be driven.
    """
    used = config or EvalConfig()
    settings = EvalConfig(
        criteria=CriteriaConfig(),
        agent_options=used.agent_options,
        endpoint=used.endpoint,
        parallel=True,
        max_concurrency=2,
        timeout=timeout,
        reporter=ReporterConfig(enabled=False),
    )
    evaluator = AgentEvaluator(agent, config=settings)
    first = (await _played(evaluator, ["first"], message))[0]
    pair, gap = await _watched(evaluator, message)
    if gap >= _BLOCKED_SECONDS:  # once may be the machine's fault
        gap = min(gap, (await _watched(evaluator, message))[1])
    target = type(evaluator._target).__name__
    return Diagnosis(target, list(_findings(target, first, pair, gap)))


async def _watched(evaluator: AgentEvaluator, message: str) -> tuple[list[_Sentinel], float]:
    """Two conversations at the same time, and how long the event loop stood still at the most, in seconds."""
    gaps: list[float] = []
    watch = asyncio.create_task(_note_gaps(gaps))
    pair = await _played(evaluator, ["second", "third"], message)
    await asyncio.sleep(_BEAT_SECONDS)  # for the last gap to be noted
    watch.cancel()
    return pair, max(gaps, default=0.0)


async def _note_gaps(gaps: list[float]) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    while True:
        await asyncio.sleep(_BEAT_SECONDS)
        now = loop.time()
        gaps.append(now - before - _BEAT_SECONDS)
        before = now


async def _played(evaluator: AgentEvaluator, names: Sequence[str], message: str) -> list[_Sentinel]:
    words = [(f"zq{secrets.token_hex(4)}", f"zq{secrets.token_hex(4)}") for _ in names]
    cases = [
        EvalCase(
            eval_id=name,
            conversation=[Invocation.simple(f"{message} (mark: {word})") for word in pair],
            on_turn_error="continue",
        )
        for name, pair in zip(names, words, strict=True)
    ]
    report = await evaluator.evaluate(EvalSet(eval_set_id="doctor", eval_cases=cases))
    return [_Sentinel(*item) for item in zip(names, words, report.results, strict=True)]


# Findings


def _findings(target: str, first: _Sentinel, pair: Sequence[_Sentinel], gap: float) -> Iterator[Finding]:
    every = [first, *pair]
    broke = [s for s in every if s.result.error_kind in (ErrorKind.AGENT, ErrorKind.TIMEOUT, ErrorKind.WIRING)]
    if broke:
        said = "; ".join(dict.fromkeys(str(sentinel.result.error) for sentinel in broke))
        yield Finding("runs", "wrong", f"{len(broke)} of 3 conversations broke: {said}", _fix_of_break(broke))
    else:
        yield Finding("runs", "ok", "three conversations of two turns ended, two of them at the same time")
    yield _answers(every, target)
    yield from _events(every, target)
    yield _tokens(every, target)
    yield _isolation(first, pair)
    yield _memory(every)
    yield _loop(gap)


def _fix_of_break(broke: Sequence[_Sentinel]) -> str:
    if any(sentinel.result.error_kind is ErrorKind.TIMEOUT for sentinel in broke):
        return "raise --timeout if the agent is slow, or look for what it waits for"
    return "ask it something that it can answer with --message, or mend what it raises"


def _answers(every: Sequence[_Sentinel], target: str) -> Finding:
    turns = [turn for sentinel in every for turn in sentinel.result.turn_results]
    answered = sum(turn.answered for turn in turns)
    if turns and answered == len(turns):
        return Finding("answers", "ok", f"every turn was answered, the first with {_cut(turns[0].agent_response)!r}")
    fix = {
        "FunctionTarget": "return the text, or an object with `response`",
        "LangGraphTarget": "end with an AI message, or name the field with agent_options.output_key",
        "TulipGraphTarget": "name the field that holds the answer: as_eval_target(graph, output_key=...)",
    }.get(target, "the last message of a turn has to be the assistant's")
    return Finding("answers", "wrong", f"{answered} of {len(turns)} turns were answered", fix)


def _events(every: Sequence[_Sentinel], target: str) -> Iterator[Finding]:
    results = [sentinel.result for sentinel in every]
    nodes = dict.fromkeys(name for result in results for name in result.node_visits)
    calls = [call for result in results for call in result.actual_tool_calls]
    how = {
        "FunctionTarget": "take a parameter `run` and report with run.node(name) and run.tool(name, args)",
        "AinvokeTarget": "return the tool calls in `messages`",
        "HttpTarget": "say where the reply lists them: response.nodes, response.tool_calls",
    }.get(target, "")
    if nodes:
        yield Finding("nodes", "ok", f"node visits are seen: {_some(nodes)}")
    else:
        yield Finding("nodes", "note", "no node visit was seen; node_order cannot judge this agent", how)
    if not calls:
        fix = "ask for something that needs a tool with --message"
        yield Finding("tools", "note", "no tool call was seen", f"{fix}; if it did call one: {how}" if how else fix)
        return
    silent = dict.fromkeys(call.name for call in calls if call.result is None and call.error is None)
    text = f"tool calls are seen: {_some(dict.fromkeys(call.name for call in calls))}"
    if silent:
        fix = "set `result` or `error` of what run.tool(...) returns" if target == "FunctionTarget" else ""
        yield Finding("tools", "note", f"{text}; neither result nor error of {_some(silent)}", fix)
    else:
        yield Finding("tools", "ok", f"{text}, with arguments and what they returned")


def _tokens(every: Sequence[_Sentinel], target: str) -> Finding:
    total = sum(sentinel.result.agent_token_usage.total_tokens for sentinel in every)
    if total:
        return Finding("tokens", "ok", f"{total} tokens were counted")
    fix = {
        "FunctionTarget": "run.tokens({'input_tokens': ..., 'output_tokens': ...})",
        "LangGraphTarget": "the chat model has to fill usage_metadata; for a streaming one switch stream_usage on",
        "HttpTarget": "response.input_tokens and response.output_tokens",
    }.get(target, "the model has to report its usage")
    return Finding("tokens", "note", "no tokens were counted; a token budget cannot be checked", fix)


def _isolation(first: _Sentinel, pair: Sequence[_Sentinel]) -> Finding:
    for sentinel in pair:
        for other in (first, *pair):
            if other is sentinel:
                continue
            place = _place_of(other.words, sentinel.result)
            if place is None:
                continue
            when = "an earlier conversation" if other is first else "a conversation at the same time"
            where = f"what the user said in {when} turned up in {place} of another"
            if place == "the tool calls":
                fix = "do not keep what a call needs in global variables; take the recorder or the callback of this run"
            else:
                fix = (
                    "conversations share memory: keep it by the thread or session id that each run gets, not in a "
                    "global, a class attribute or one shared object"
                )
            return Finding("isolation", "wrong", where, fix)
    shapes = {(tuple(s.result.node_visits), tuple(c.name for c in s.result.actual_tool_calls)) for s in (first, *pair)}
    if len(shapes) > 1:
        text = "no conversation shows another's words, but they went different ways for the same question"
        fix = "an agent that is not deterministic does that; if yours is, events get lost or mixed up"
        return Finding("isolation", "note", text, fix)
    return Finding("isolation", "ok", "nothing of one conversation turned up in another")


def _place_of(words: Sequence[str], result: EvalCaseResult) -> str | None:
    """Where in a result one of the words stands."""
    places: dict[str, Any] = {
        "the answers": [turn.agent_response for turn in result.turn_results],
        "the model's input": [response.input_messages for response in result.node_responses],
        "the messages": result.messages,
        "the tool calls": [(call.name, call.args, call.result, call.error) for call in result.actual_tool_calls],
    }
    for place, content in places.items():
        text = json.dumps(content, default=str)
        if any(word in text for word in words):
            return place
    return None


def _memory(every: Sequence[_Sentinel]) -> Finding:
    for sentinel in every:
        earlier, later = sentinel.words
        seen = [json.dumps(response.input_messages) for response in sentinel.result.node_responses]
        answers = [turn.agent_response for turn in sentinel.result.turn_results[1:]]
        if any(earlier in text and later in text for text in seen) or any(earlier in text for text in answers):
            return Finding("memory", "ok", "the second turn knows the first")
    text = "whether the second turn knows the first does not show"
    return Finding("memory", "note", text, "a case of two turns that needs the first one's answer would tell")


def _loop(gap: float) -> Finding:
    if gap < _BLOCKED_SECONDS:
        return Finding("event loop", "ok", "the agent lets other cases run while it waits")
    fix = "make the agent function sync (it then runs in a thread), or await an asynchronous call instead"
    return Finding("event loop", "wrong", f"the agent blocked the event loop for {gap:.1f} s: cases wait for it", fix)


def _some(names: Sequence[str] | dict[str, None]) -> str:
    listed = list(names)
    return ", ".join(listed[:_NAMES_SHOWN]) + (", ..." if len(listed) > _NAMES_SHOWN else "")


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
