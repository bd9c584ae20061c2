"""What the engine needs of an agent: one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.dataset import MessageContent


@dataclass(slots=True)
class Turn:
    """What the user says now.

    Attributes:
        index: From 0.
        text: The text of the message.
        content: The message as the eval set states it.
    """

    index: int
    text: str
    content: MessageContent


@dataclass(slots=True)
class Session:
    """One conversation with the agent; every attempt of a case has its own.

    Attributes:
        thread_id: Fresh for each attempt: ``[a-z0-9-]``, at most 63 characters.
        app_name: As the case states it.
        user_id: As the case states it.
        state: A deep copy of the case's initial state.
        config: Merged into the runtime's run config.
        messages: The conversation before this turn: ``{"role", "content"}`` of user and assistant.
        memory: Free for the adapter, kept from turn to turn.
        fixtures: Name -> value of the case's fixtures.
        raw: Index of a turn -> what the runtime returned, as it is, where the adapter keeps it.
    """

    thread_id: str
    app_name: str = ""
    user_id: str = "test_user"
    state: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    fixtures: dict[str, Any] = field(default_factory=dict)
    raw: dict[int, Any] = field(default_factory=dict)


def starting_state(initial_state: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """What a run starts with: the session's state over the agent's, so copied that no run sees another's changes."""
    return {name: _copied(value) for name, value in {**initial_state, **session.state}.items()}


def _copied(value: Any) -> Any:
    """A copy of objects and lists all the way down; what else they hold may be a client or a lock and is shared."""
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if type(value) is list else value


@runtime_checkable
class Target(Protocol):
    """An agent that can be driven turn by turn."""

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn and reports to ``collector`` as things happen, so that evidence survives a timeout.

        Raises:
            Exception: Whatever the agent raises; the case is then broken and keeps what was recorded.
        """


@dataclass(frozen=True, slots=True)
class AgentShape:
    """What is known of an agent before it runs.

    Attributes:
        tools: Name -> JSON Schema of the arguments, None where it is not known; None when the tools are not known.
        nodes: The names that visits have; None when not known.
        edges: (from, to), with ``__start__`` and ``__end__``; None when not known. A node that no edge leaves may go
            anywhere.
    """

    tools: Mapping[str, Mapping[str, Any] | None] | None = None
    nodes: Sequence[str] | None = None
    edges: frozenset[tuple[str, str]] | None = None


def shape_of(target: Any) -> AgentShape:
    """What a target tells of its agent, if it has ``describe() -> AgentShape``; one that raises tells nothing."""
    try:
        describe = getattr(target, "describe", None)
        shape = describe() if callable(describe) else None
    except Exception:
        shape = None
    return shape if isinstance(shape, AgentShape) else AgentShape()
