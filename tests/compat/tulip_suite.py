"""A suite as a user of tulip.evaluation writes it; ``evals`` is that module, or ours in its place."""

from __future__ import annotations

from typing import Any

from tulip.agent import Agent
from tulip.testing import FunctionModel, text

from tests.adapters.test_tulip import agent, graph

ADD = ("add", {"a": 1, "b": 2})
SLOWLY = ("slowly", {"number": "7"})


def broken() -> Agent:
    """An agent whose model cannot be reached."""

    def rule(messages: Any, tools: Any) -> Any:
        raise ValueError("no model")

    return Agent(model=FunctionModel(rule), context_window=100_000)


def worker() -> Agent:
    """Adds, takes its time, and answers ``3 | done 7``."""
    return agent(ADD, SLOWLY)


def route() -> Any:
    """A graph of two nodes."""

    def classify(state: dict[str, Any]) -> dict[str, Any]:
        return {"kind": "billing"}

    def billing(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": f"Refunded {state['question']}, {state['shop']}"}

    return graph(("classify", classify), ("billing", billing))


def judge(evals: Any, reply: str) -> Any:
    """A judge that always says the same."""
    return evals.LLMJudge(FunctionModel(lambda messages, tools: text(reply)))


def cases(evals: Any) -> list[Any]:
    """Twenty-two cases: every expectation, met and not met, alone and together."""

    def case(name: str, **expected: Any) -> Any:
        return evals.EvalCase(name=name, prompt="work", **expected)

    return [
        case("nothing expected"),
        case("tool", expected_tools=["add"]),
        case("both tools", expected_tools=["slowly", "add"]),
        case("missing tool", expected_tools=["add", "search"]),
        case("answer", expected_output_contains=["done 7"]),
        case("answer in capitals", expected_output_contains=["DONE"]),
        case("other answer", expected_output_contains=["done 8", "3"]),
        case("unwanted", expected_output_not_contains=["DONE"]),
        case("not there", expected_output_not_contains=["error"]),
        case("within budget", max_iterations=2),
        case("over budget", max_iterations=1),
        case("within time", max_duration_ms=60_000),
        case("in order", expected_tool_sequence=["add", "slowly"]),
        case("in order, with a gap", expected_tool_sequence=["slowly"]),
        case("out of order", expected_tool_sequence=["slowly", "add"]),
        case("exactly", expected_tool_sequence=["add", "slowly"], exact_tool_sequence=True),
        case("not exactly", expected_tool_sequence=["add"], exact_tool_sequence=True),
        case("all together", expected_tools=["add"], expected_output_contains=["3"], max_iterations=3),
        case("two of three", expected_tools=["add"], expected_output_contains=["x"], max_iterations=3),
        case("rubric", rubric="Is it nice?"),
        case("rubric and tool", rubric="Is it nice?", expected_tools=["add"]),
        case("tagged", expected_tools=["add"], tags=["smoke"], metadata={"owner": "ann"}),
    ]


def graph_cases(evals: Any) -> list[Any]:
    """Cases for the graph."""

    def case(name: str, **expected: Any) -> Any:
        return evals.EvalCase(name=name, prompt="order 7", **expected)

    return [
        case("route", expected_tool_sequence=["classify", "billing"]),
        case("exact route", expected_tool_sequence=["classify", "billing"], exact_tool_sequence=True),
        case("wrong branch", expected_tools=["shipping"]),
        case("answer", expected_output_contains=["Refunded order 7, Berlin"]),
        case("steps", max_iterations=2),
        case("too many steps", max_iterations=1),
    ]


def seen(report: Any) -> dict[str, Any]:
    """What a report says, without the milliseconds."""
    results = [result.model_dump(exclude={"duration_ms"}) for result in report.results]
    summary = [line for line in report.summary().splitlines() if not line.startswith("Total duration")]
    return {
        "results": results,
        "summary": [line.rpartition(", ")[0] if "(score:" in line else line for line in summary],
        **report.model_dump(include={"total_cases", "passed", "failed", "timed_out", "avg_score"}),
    }
