"""The wiring of 10xgraph (agentflow) graphs."""

from __future__ import annotations

from typing import Any, NoReturn

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.errors import MissingExtraError


def make_trajectory_callback(
    collector: TrajectoryCollector,  # noqa: ARG001  # the documented signature
    config: dict[str, Any] | None = None,  # noqa: ARG001
) -> tuple[TrajectoryCollector, Any]:
    """The collector, and the callback manager to pass to ``compile()``.

    Raises:
        MissingExtraError: The agentflow runtime is not part of this version.
    """
    _missing("make_trajectory_callback")


def create_eval_app(
    graph: Any,  # noqa: ARG001  # the documented signature
    *,
    capture_all_events: bool = True,  # noqa: ARG001
) -> tuple[Any, TrajectoryCollector]:
    """The compiled graph, and the collector that sees it run.

    Raises:
        MissingExtraError: The agentflow runtime is not part of this version.
    """
    _missing("create_eval_app")


def _missing(name: str) -> NoReturn:
    raise MissingExtraError(
        f"{name} needs the extra 'agentflow', which this version does not offer yet; LangGraph graphs and functions "
        "need no such wiring: AgentEvaluator(agent, config=...)"
    )
