"""Who talks to the agent: the turns of an eval set, or a model that plays a user with goals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from agentflow_eval.config import UserSimulatorConfig
from agentflow_eval.dataset import ConversationScenario, EvalCase, Invocation
from agentflow_eval.errors import JudgeError
from agentflow_eval.judge import JudgeRequest, Judges, read_object, render
from agentflow_eval.result import NO_TOKENS, TokenUsage

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string"}, "finished": {"type": "boolean"}},
    "required": ["message", "finished"],
    "additionalProperties": False,
    "example": {"message": "what you say next", "finished": False},
}


class User(Protocol):
    """Says what comes next in a conversation.

    Attributes:
        token_usage: Tokens that it took to play the user.
    """

    token_usage: TokenUsage

    async def next_turn(self, messages: Sequence[dict[str, Any]]) -> Invocation | None:
        """The next turn after ``messages``, or None when the conversation is over.

        Raises:
            JudgeError: The model that plays the user gave nothing usable.
        """


class FixedUser:
    """Says what the case states."""

    token_usage = NO_TOKENS

    def __init__(self, turns: Sequence[Invocation]) -> None:
        self._turns = iter(turns)

    async def next_turn(self, messages: Sequence[dict[str, Any]]) -> Invocation | None:  # noqa: ARG002  # it knows already
        """The next stated turn."""
        return next(self._turns, None)


class SimulatedUser:
    """A model that follows a scenario: the starting prompt first, then whatever its plan and goals ask for."""

    def __init__(self, scenario: ConversationScenario, config: UserSimulatorConfig, judges: Judges) -> None:
        self._scenario = scenario
        self._config = config
        self._judges = judges
        self._said = 0
        self._limit = min(scenario.max_turns, config.max_invocations)
        self.token_usage = NO_TOKENS

    async def next_turn(self, messages: Sequence[dict[str, Any]]) -> Invocation | None:
        """The model's next message; None when it is finished or the turn limit is reached."""
        if self._said >= self._limit:
            return None
        self._said += 1
        if self._said == 1:
            return Invocation.simple(self._scenario.starting_prompt)
        text = await self._asked(messages)
        return None if text is None else Invocation.simple(text)

    async def _asked(self, messages: Sequence[dict[str, Any]]) -> str | None:
        values = {
            "scenario": self._scenario,
            "messages": messages,
            "left": self._limit - self._said,
            "instructions": "",
            "scale": "0-1",
        }
        prompt = render("simulated_user", values, _SCHEMA)
        thinking = self._config.thinking_budget if self._config.thinking_enabled else None
        request = JudgeRequest(
            prompt.messages,
            _SCHEMA,
            sample=self._said,
            model=self._config.model,
            temperature=self._config.temperature,
            thinking_budget=thinking,
        )
        try:
            reply = await self._judges.ask(request)
            self.token_usage += reply.token_usage
            values_said = read_object(reply.text, ("message", "finished"), prompt)
        except JudgeError as exc:
            raise JudgeError(f"the simulated user failed at turn {self._said}: {exc}") from exc
        if values_said.get("finished") is True:
            return None
        message = values_said.get("message")
        if not isinstance(message, str) or not message.strip():
            raise JudgeError(f"the simulated user failed at turn {self._said}: it said nothing: {reply.text[:200]!r}")
        return message


def user_of(case: EvalCase, config: UserSimulatorConfig | None, judges: Judges) -> User:
    """The user of a case: simulated when it has a scenario."""
    if case.scenario is None:
        return FixedUser(case.conversation)
    return SimulatedUser(case.scenario, config or UserSimulatorConfig(), judges)
