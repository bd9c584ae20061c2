"""Drives any object with ``ainvoke`` that is not a graph of a known runtime."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from agentflow_eval.adapters import _messages
from agentflow_eval.adapters._target import Session, Turn, starting_state
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.errors import AgentError, TargetError


class AinvokeTarget:
    """An object whose ``ainvoke`` takes the conversation and gives the answer.

    It is asked with ``{"messages": [...]}``, the whole conversation as ``{"role", "content"}``; a LangChain model with
    that list; with ``input_key`` it is asked with ``{input_key: text}``. It may answer with text, a message, an object
    with ``messages``, a list of messages, or anything else, and ``output_key`` names the value that is the answer.

    Raises:
        TargetError: ``output_node`` is given; only graphs have nodes.
    """

    def __init__(
        self,
        agent: Any,
        *,
        input_key: str | None = None,
        output_key: str | None = None,
        output_node: str | None = None,
        initial_state: Mapping[str, Any] | None = None,
    ) -> None:
        if output_node is not None:
            raise TargetError(f"output_node needs a graph, and the agent is a {type(agent).__name__}; use output_key")
        self._agent = agent
        self._input_key = input_key
        self._output_key = output_key
        self._initial_state = dict(initial_state or {})
        self._takes_config = _takes_config(agent)
        self._takes_messages = _begins_with_a_model(agent)

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Asks once and records what comes back."""
        options: dict[str, Any] = {}
        if self._takes_config:
            configurable = {"thread_id": session.thread_id, **(session.config.get("configurable") or {})}
            options["config"] = {**session.config, "configurable": configurable}
        result = self._agent.ainvoke(self._question(turn, session), **options)
        self._take(await result if inspect.isawaitable(result) else result, collector)

    def _question(self, turn: Turn, session: Session) -> Any:
        state = starting_state(self._initial_state, session)
        if self._input_key is not None:
            return {**state, self._input_key: turn.text}
        messages = [*map(dict, session.messages), {"role": "user", "content": turn.text}]
        return messages if self._takes_messages else {**state, "messages": messages}

    def _take(self, result: Any, collector: TrajectoryCollector) -> None:
        listed = _messages_of(result)
        said = _new_messages(listed or [])
        _record_calls(said, collector)
        _messages.record(said, collector)
        if self._output_key is not None:
            if not isinstance(result, Mapping) or self._output_key not in result:
                keys = ", ".join(map(str, result)) if isinstance(result, Mapping) else type(result).__name__
                raise AgentError(f"the agent's answer has no {self._output_key!r} (output_key); it has: {keys}")
            collector.say(result[self._output_key])
        elif listed is not None:
            collector.say(_messages.answer(said))
        else:
            collector.take(result)


def _messages_of(result: Any) -> list[Any] | None:
    """The messages that an answer consists of or holds; None when it is something else."""
    if _messages.is_message(result):
        return [result]
    listed = _messages.field(result, "messages")
    if isinstance(listed, (list, tuple)):
        return [message for message in listed if _messages.is_message(message)]
    if isinstance(result, (list, tuple)) and result and all(map(_messages.is_message, result)):
        return list(result)
    return None


def _new_messages(messages: list[Any]) -> list[Any]:
    """The messages after the last one of the user."""
    users = [index for index, message in enumerate(messages) if _messages.role(message) == "user"]
    return messages[users[-1] + 1 :] if users else messages


def _begins_with_a_model(agent: Any) -> bool:
    """Whether it is a LangChain model, also with tools, retries or fallbacks, or a chain that begins with one."""
    while agent is not None:
        names = {cls.__name__ for cls in type(agent).__mro__}
        if "BaseLanguageModel" in names:
            return True
        inner = {"RunnableBindingBase": "bound", "RunnableWithFallbacks": "runnable", "RunnableSequence": "first"}
        agent = next((getattr(agent, part, None) for name, part in inner.items() if name in names), None)
    return False


def _takes_config(agent: Any) -> bool:
    try:
        parameters = inspect.signature(agent.ainvoke).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == "config" or p.kind is p.VAR_KEYWORD for p in parameters)


def _record_calls(messages: list[Any], collector: TrajectoryCollector) -> None:
    """The requested tool calls in order, with what the tool messages say of them."""
    results = {_messages.field(m, "tool_call_id"): m for m in messages if _messages.role(m) == "tool"}
    for message in messages:
        usage = _messages.usage(message)
        if usage.total_tokens:
            collector.tokens(usage)
        for request in _messages.requests(message):
            reply = results.get(request.call_id) if request.call_id is not None else None
            result, error = _messages.tool_outcome(reply) if reply is not None else (None, request.error)
            collector.tool(request.name, request.args, result=result, error=error, call_id=request.call_id)
