from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentflow_eval.adapters import AgentShape, adapt, shape_of
from agentflow_eval.cli import main
from agentflow_eval.config import CriteriaConfig, EvalConfig
from agentflow_eval.dataset import EvalCase, EvalSet, ToolCall
from agentflow_eval.errors import TargetError
from agentflow_eval.lint import lint

SCHEMA = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "speed": {"type": "string", "enum": ["slow", "fast"]},
        "price": {"type": "number"},
        "odd": {"$ref": "#/$defs/Odd"},
    },
}
SHAPE = AgentShape(
    tools={"lookup_order": SCHEMA, "free": None},
    nodes=["MAIN", "TOOL", "SUB", "SUB/inner"],
    edges=frozenset({("__start__", "MAIN"), ("MAIN", "TOOL"), ("TOOL", "MAIN"), ("MAIN", "__end__"), ("SUB", "MAIN")}),
)


def said(case: EvalCase, config: EvalConfig | None = None, shape: AgentShape = SHAPE) -> list[tuple[str, str, str]]:
    """What is remarked about a set of one case."""
    return [(r.place, r.message, r.level) for r in lint(EvalSet(eval_set_id="s", eval_cases=[case]), shape, config)]


def calling(name: str, **args: Any) -> EvalCase:
    """A case that expects one call."""
    return EvalCase.single_turn("c", "hi", expected_tools=[ToolCall(name=name, args=args)])


def visiting(*nodes: str) -> EvalCase:
    """A case that expects visits."""
    return EvalCase.single_turn("c", "hi", expected_node_order=list(nodes))


CALL = "eval_cases[0].conversation[0].expected_tool_trajectory[0]"


@pytest.mark.parametrize(
    ("case", "place", "message"),
    [
        (
            calling("lookup_oder"),
            f"{CALL}.name",
            "the agent has no tool 'lookup_oder'; did you mean 'lookup_order'? (there: lookup_order, free)",
        ),
        (
            calling("lookup_order", orderid=7),
            f"{CALL}.args.orderid",
            "lookup_order has no argument 'orderid'; did you mean 'order_id'? "
            "(there: order_id, note, speed, price, odd)",
        ),
        (calling("lookup_order", order_id="7"), f"{CALL}.args.order_id", 'lookup_order takes integer, got "7"'),
        (calling("lookup_order", order_id=True), f"{CALL}.args.order_id", "lookup_order takes integer, got true"),
        (calling("lookup_order", note=3), f"{CALL}.args.note", "lookup_order takes string or null, got 3"),
        (
            calling("lookup_order", speed="fats"),
            f"{CALL}.args.speed",
            'lookup_order takes one of ["slow", "fast"], got "fats"',
        ),
        (
            calling("lookup_order", order_id={"$literal": "7"}),
            f"{CALL}.args.order_id",
            'lookup_order takes integer, got "7"',
        ),
    ],
)
def test_tools(case: EvalCase, place: str, message: str) -> None:
    """Tools and arguments that the agent does not have, with the nearest that it has."""
    assert said(case) == [(place, message, "error")]


@pytest.mark.parametrize(
    "case",
    [
        calling("lookup_order", order_id=7, note=None, speed="slow", price=1),
        calling("lookup_order", order_id=7.0, price=1.5),
        calling("lookup_order", order_id={"$any": True}, speed={"$regex": "f.*"}),
        calling("lookup_order", odd=[1]),
        calling("free", anything="goes"),
        EvalCase.single_turn("c", "hi"),
    ],
)
def test_tools_that_fit(case: EvalCase) -> None:
    """What matchers accept and what no schema says is not held against a case."""
    assert said(case) == []


def test_nodes() -> None:
    """Nodes that the graph does not have."""
    message = "the graph has no node 'TOOLS'; did you mean 'TOOL'? (there: MAIN, TOOL, SUB, SUB/inner)"
    assert said(visiting("MAIN", "TOOLS")) == [
        ("eval_cases[0].conversation[0].expected_node_order[1]", message, "error")
    ]
    assert len(said(visiting("SUB/outer"))) == 1
    assert said(visiting("MAIN", "SUB/inner", "TOOL/inner")) == []


def node_order(match_type: str) -> EvalConfig:
    """A config of one criterion."""
    return EvalConfig(criteria=CriteriaConfig.model_validate({"node_order": {"match_type": match_type}}))


@pytest.mark.parametrize(
    ("nodes", "match_type", "why"),
    [
        (["TOOL", "MAIN"], "EXACT", "no edge leads to TOOL from the start or from a visit before it (none)"),
        (["MAIN", "SUB"], "EXACT", "no edge leads to SUB from the start or from a visit before it (MAIN)"),
        (["MAIN", "SUB"], "IN_ORDER", "no edge leads to SUB from the start or from a visit before it (MAIN)"),
        (["MAIN", "TOOL", "MAIN"], "EXACT", None),
        (["TOOL", "MAIN"], "IN_ORDER", None),
        (["SUB"], "ANY_ORDER", None),
    ],
)
def test_order(nodes: list[str], match_type: str, why: str | None) -> None:
    """Orders that no edge allows, as far as the match type asks for an order."""
    place = "eval_cases[0].conversation[0].expected_node_order"
    assert said(visiting(*nodes), node_order(match_type)) == ([(place, why, "warning")] if why else [])


def test_order_after_a_node_without_edges() -> None:
    """A node that no edge leaves may go anywhere, and branches run side by side."""
    edges = frozenset({("__start__", "A"), ("__start__", "B"), ("B", "C")})
    shape = AgentShape(nodes=["A", "B", "C", "D"], edges=edges)
    assert said(visiting("A", "B", "C", "D"), node_order("EXACT"), shape) == []


def test_unknown_shape() -> None:
    """Nothing is compared with what is not known."""
    assert said(calling("nothing", x=1), shape=AgentShape()) == []
    assert said(visiting("NOWHERE"), node_order("EXACT"), AgentShape()) == []


def test_case_of_another_agent() -> None:
    """A case that names its target is not compared with this agent."""
    assert said(calling("nothing").model_copy(update={"target": "other"})) == []


def test_criteria_without_data() -> None:
    """Criteria that no case has data for, and expectations that no criterion reads."""
    criteria = {"trajectory": {}, "exact_match": {}, "contains_keywords": {}, "budget": {"max_tool_calls": 1}}
    config = EvalConfig(criteria=CriteriaConfig.model_validate(criteria))
    assert said(visiting("MAIN"), config) == [
        ("", "trajectory is switched on and no case states expected_tool_trajectory", "warning"),
        ("", "contains_keywords is switched on and no case states expected_keywords or forbidden_keywords", "warning"),
        ("", "exact_match is switched on and no case states expected_final_response", "warning"),
        ("", "expected_node_order of case 'c' is read by no criterion (node_order would)", "warning"),
    ]
    stated = EvalCase.single_turn("c", "hi", "x", [])
    words = CriteriaConfig.model_validate({**criteria, "contains_keywords": {"keywords": ["x"]}})
    assert said(stated, EvalConfig(criteria=words)) == []


# Real agents


def test_langgraph_shape() -> None:
    """Nodes, edges, and tools with their arguments."""
    from agentflow_eval.examples.support.agent import graph

    shape = shape_of(adapt(graph))
    assert shape.nodes == ["MAIN", "TOOL"]
    assert shape.edges is not None
    assert ("__start__", "MAIN") in shape.edges
    assert shape.tools is not None
    assert set(shape.tools["refund_order"]["properties"]) == {"order_id", "amount", "reason"}  # type: ignore[index]


def test_subgraph_shape() -> None:
    """Visits inside a subgraph have its name before theirs."""
    from langgraph.graph import START, MessagesState, StateGraph

    def nothing(state: Any) -> dict[str, Any]:
        return {}

    inner = StateGraph(MessagesState).add_node("deep", nothing).add_edge(START, "deep").compile()
    outer = StateGraph(MessagesState).add_node("sub", inner).add_edge(START, "sub").compile()
    shape = shape_of(adapt(outer))
    assert (shape.nodes, shape.tools) == (["sub", "sub/deep"], None)


def test_tulip_shape() -> None:
    """The tools of an agent."""
    from tests.adapters.test_tulip import agent

    tools = shape_of(adapt(agent())).tools
    assert tools is not None
    assert list(tools) == ["add", "slowly", "hang", "fail"]
    assert tools["add"]["required"] == ["a", "b"]  # type: ignore[index]


def test_agno_shape() -> None:
    """The names of an agent's tools; a team's show when it runs."""
    from agno.tools import Toolkit

    from tests.adapters.test_agno import add, agent, once, team

    made = agent(once())
    made.tools = [add, Toolkit(name="kit", tools=[test_tulip_shape])]
    assert shape_of(adapt(made)).tools == {"add": None, "test_tulip_shape": None}
    assert shape_of(adapt(team(made))) == AgentShape()


def test_other_agents_tell_nothing() -> None:
    """A function has no shape before it runs; nor has a target that cannot or will not tell."""

    class Broken:
        def describe(self) -> AgentShape:
            raise RuntimeError("broken")

        async def run_turn(self, turn: Any, session: Any, collector: Any) -> None:
            collector.say("hi")

    class Odd(Broken):
        def describe(self) -> Any:
            return "a shape"

    assert shape_of(adapt(lambda text: text)) == AgentShape()
    assert shape_of(adapt(Broken())) == AgentShape()
    assert shape_of(adapt(Odd())) == AgentShape()


def test_object_that_cannot_be_looked_at() -> None:
    """An object that raises whatever it is asked is named, not a traceback."""

    class Evil:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"no {name}")

    with pytest.raises(TargetError, match="looking at it raised RuntimeError: no "):
        adapt(Evil())


# Command line

SUPPORT = "agentflow_eval.examples.support.agent:graph"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a set that does not fit, one that does, and a config."""
    monkeypatch.chdir(tmp_path)
    EvalSet(eval_set_id="bad", eval_cases=[calling("lookup_oder", order_id=1)]).to_file("bad.json")
    EvalSet(eval_set_id="good", eval_cases=[calling("lookup_order", order_id=1)]).to_file("good.json")
    criteria = CriteriaConfig.model_validate({"trajectory": {}, "exact_match": {}})
    EvalConfig(criteria=criteria).to_file("config.json")
    return tmp_path


def test_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 for what cannot be met, 0 for warnings unless --strict; without --agent nothing is compared."""
    assert main(["check", "bad.json"]) == 0
    assert main(["check", "bad.json", "--agent", SUPPORT]) == 1
    assert f"bad.json: {CALL}.name: error: the agent has no tool 'lookup_oder'" in capsys.readouterr().err
    assert main(["check", "good.json", "--agent", SUPPORT]) == 0
    assert f"good.json: fits {SUPPORT}" in capsys.readouterr().out
    assert main(["check", "good.json", "config.json", "--agent", SUPPORT]) == 0
    assert "good.json: warning: exact_match is switched on and no case states" in capsys.readouterr().err
    assert main(["check", "good.json", "config.json", "--agent", SUPPORT, "--strict"]) == 1


def test_what_is_not_known_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An agent that tells nothing is not blamed for it."""
    assert main(["check", "bad.json", "--agent", "agentflow_eval.examples.echo:agent"]) == 0
    assert (
        "note: tools and nodes and edges of agentflow_eval.examples.echo:agent cannot be known"
        in capsys.readouterr().out
    )


def test_bad_files_come_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be used is 2, and nothing is compared; so is an agent that cannot be imported."""
    (folder / "broken.json").write_text("{")
    assert main(["check", "bad.json", "broken.json", "--agent", SUPPORT]) == 2
    assert "lookup_oder" not in capsys.readouterr().err
    assert main(["check", "bad.json", "--agent", "nowhere:agent"]) == 2
