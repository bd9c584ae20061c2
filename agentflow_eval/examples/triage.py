"""A help desk whose state holds no messages: it classifies a question, asks several teams at once and merges."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

TEAMS = {
    "billing": {
        "invoice": "Invoices are sent on the first of the month.",
        "charged": "A double charge is paid back in 3 days.",
    },
    "technical": {
        "login": "Reset your password to log in.",
        "crash": "Update to version 4.2, it fixes the crash.",
    },
}


class Question(TypedDict, total=False):
    """The state of the desk."""

    question: str
    route: list[str]
    advice: Annotated[list[str], operator.add]
    answer: str


class Lookup(TypedDict, total=False):
    """The state of one team, a graph of its own."""

    question: str
    team: str
    found: list[str]
    advice: Annotated[list[str], operator.add]


class Advice(TypedDict):
    """What a team gives back."""

    advice: Annotated[list[str], operator.add]


def _search(state: Lookup) -> dict[str, Any]:
    known = TEAMS[state["team"]]
    return {"found": [text for word, text in known.items() if word in state["question"].lower()]}


def _advise(state: Lookup) -> dict[str, Any]:
    return {"advice": [f"{state['team']}: {text}" for text in state["found"]]}


def _classify(state: Question) -> dict[str, Any]:
    question = state["question"].lower()
    return {"route": [team for team, known in TEAMS.items() if any(word in question for word in known)]}


def _teams(state: Question) -> list[Send] | str:
    """Every team that the question concerns, at the same time; the front desk when it concerns none."""
    return [Send("team", {"question": state["question"], "team": team}) for team in state["route"]] or "front_desk"


def _front_desk(state: Question) -> dict[str, Any]:  # noqa: ARG001  # LangGraph passes it by this name
    return {"answer": "Please tell us a little more."}


def _merge(state: Question) -> dict[str, Any]:
    return {"answer": " ".join(sorted(state["advice"]))}


def build_graph() -> Any:
    """The compiled graph."""
    team = StateGraph(Lookup, output_schema=Advice)
    team.add_node("search", _search)
    team.add_node("advise", _advise)
    team.add_edge(START, "search")
    team.add_edge("search", "advise")
    team.add_edge("advise", END)

    desk = StateGraph(Question)
    desk.add_node("classify", _classify)
    desk.add_node("team", team.compile())
    desk.add_node("front_desk", _front_desk)
    desk.add_node("merge", _merge)
    desk.add_edge(START, "classify")
    desk.add_conditional_edges("classify", _teams, ["team", "front_desk"])
    desk.add_edge("team", "merge")
    desk.add_edge("merge", END)
    desk.add_edge("front_desk", END)
    return desk.compile()


graph = build_graph()
