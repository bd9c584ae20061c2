"""A chat model that follows rules: the same conversation always gets the same answer, and no network is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from .rules import Outcome, Situation, Step, SupportRules


class SupportModel(SupportRules, BaseChatModel):
    """Answers customers of the shop."""

    @property
    def _llm_type(self) -> str:
        return "support-rules"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,  # noqa: ARG002  # LangChain's signature
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools that it may request."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002  # LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_options: Any,
    ) -> ChatResult:
        step = self.step(_situation(messages))
        return ChatResult(generations=[ChatGeneration(message=_message(step, messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002  # LangChain's signature
        **options: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, **options)


def _situation(messages: Sequence[BaseMessage]) -> Situation:
    asked = [index for index, message in enumerate(messages) if isinstance(message, HumanMessage)]
    said = [str(messages[index].text) for index in reversed(asked)]
    return Situation(said, _outcomes(messages[asked[-1] + 1 :] if asked else []))


def _outcomes(messages: Sequence[BaseMessage]) -> list[Outcome]:
    replies = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    requested = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return [_outcome(call, replies[str(call["id"])]) for call in requested if call["id"] in replies]


def _outcome(call: ToolCall, reply: ToolMessage) -> Outcome:
    if reply.status == "error":
        return Outcome(call["name"], call["args"], None, reply.text)
    return Outcome(call["name"], call["args"], json.loads(reply.text), None)


def _message(step: Step, asked: Sequence[BaseMessage]) -> AIMessage:
    number = sum(isinstance(message, AIMessage) for message in asked)
    requests = [] if isinstance(step, str) else step
    calls = [
        ToolCall(name=request.tool, args=request.args, id=f"call-{number}-{index}", type="tool_call")
        for index, request in enumerate(requests)
    ]
    read = sum(_size(message) for message in asked)
    written = _size(AIMessage(step if isinstance(step, str) else "", tool_calls=calls))
    usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    return AIMessage(step if isinstance(step, str) else "", tool_calls=calls, usage_metadata=usage)


def _size(message: BaseMessage) -> int:
    """Words, the stand-in for tokens."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return len(message.text.split()) + sum(1 + 2 * len(call["args"]) for call in calls)
