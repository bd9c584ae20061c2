"""Eval sets, and what their files may say."""

from __future__ import annotations

import json
import random
import uuid
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agentflow_eval import (
    CriteriaConfig,
    CriterionConfig,
    EvalCase,
    EvalSet,
    Invocation,
    LoadError,
    LoadWarning,
    MessageContent,
    SessionInput,
    StepType,
    ToolCall,
    TrajectoryStep,
)

QUESTION = {"role": "user", "content": "Is it open?"}


def load(tmp_path: Path, *cases: dict[str, Any], **more: Any) -> EvalSet:
    """The eval set in a file with these cases."""
    path = tmp_path / "hours.evalset.json"
    path.write_text(json.dumps({"eval_cases": list(cases), **more}))
    return EvalSet.from_file(path)


def load_turn(tmp_path: Path, **turn: Any) -> Invocation:
    """The turn in a file with one case of one turn."""
    (case,) = load(tmp_path, {"eval_id": "c", "conversation": [{"user_content": QUESTION, **turn}]})
    return case.conversation[0]


def saved(eval_set: EvalSet, tmp_path: Path) -> dict[str, Any]:
    """What saving the set writes."""
    eval_set.to_file(tmp_path / "saved.json")
    content: dict[str, Any] = json.loads((tmp_path / "saved.json").read_text())
    return content


# Factories


def test_single_turn() -> None:
    """One turn holds everything that the factory takes."""
    tools = [ToolCall(name="hours", args={"day": "monday"})]
    case = EvalCase.single_turn("open-1", "Is it open?", "Yes.", tools, ["MAIN", "TOOL"], "Open", "On a monday")
    (turn,) = case.conversation
    assert (case.eval_id, case.name, case.description) == ("open-1", "Open", "On a monday")
    assert turn.user_content == MessageContent(role="user", content="Is it open?")
    assert turn.expected_final_response == MessageContent(role="assistant", content="Yes.")
    assert (turn.expected_tool_trajectory, turn.expected_node_order) == (tools, ["MAIN", "TOOL"])


def test_multi_turn() -> None:
    """Each pair is a turn; the tools belong to the first."""
    tools = [ToolCall(name="hours")]
    case = EvalCase.multi_turn("open-2", [("Hi", "Hello"), ("Open?", "Yes")], tools)
    assert [turn.user_content.get_text() for turn in case.conversation] == ["Hi", "Open?"]
    assert [turn.expected_text for turn in case.conversation] == ["Hello", "Yes"]
    assert [turn.expected_tools for turn in case.conversation] == [tools, None]


def test_documented_defaults() -> None:
    """Attributes have the documented types and defaults, whatever was left out."""
    turn, case, eval_set = Invocation.simple("Hi"), EvalCase(), EvalSet()
    assert (turn.expected_tool_trajectory, turn.expected_node_order) == ([], [])
    assert (turn.expected_intermediate_responses, turn.expected_final_response) == ([], None)
    assert (case.name, case.conversation, case.tags, case.metadata) == ("", [], [], {})
    assert case.session_input == SessionInput(app_name="", user_id="test_user", state={}, config={})
    assert (eval_set.name, eval_set.eval_cases, eval_set.metadata) == ("", [], {})
    assert len({turn.invocation_id, case.eval_id, eval_set.eval_set_id}) == 3


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "image", "url": "x"}, {"type": "text", "text": "b"}], "a b"),
        ([{"type": "image", "url": "x", "text": None}], ""),
        ([], ""),
    ],
)
def test_message_text(content: str | list[dict[str, Any]], text: str) -> None:
    """The text blocks are joined by a space, the others left out."""
    assert text == MessageContent(role="user", content=content).get_text()


@pytest.mark.parametrize("content", [None, 5, ["text"], {"type": "text"}])
def test_message_of_something_else(content: Any) -> None:
    """A message is text or a list of blocks."""
    with pytest.raises(ValidationError, match="must be text or a list of content blocks"):
        MessageContent(role="user", content=content)


def test_trajectory_steps() -> None:
    """The factories keep further keywords as metadata."""
    node = TrajectoryStep.node("SEARCH", timestamp=5.0, attempt=2)
    tool = TrajectoryStep.tool("find", args={"q": "owl"}, cached=True)
    assert (node.step_type, node.name, node.args, node.timestamp) == (StepType.NODE, "SEARCH", {}, 5.0)
    assert (tool.step_type, tool.name, tool.args, tool.timestamp) == (StepType.TOOL, "find", {"q": "owl"}, None)
    assert (node.metadata, tool.metadata) == ({"attempt": 2}, {"cached": True})
    assert tool.model_dump(mode="json") == {
        "step_type": "tool",
        "name": "find",
        "args": {"q": "owl"},
        "timestamp": None,
        "metadata": {"cached": True},
    }
    assert node.model_copy(update={"name": "ANSWER"}).name == "ANSWER"
    assert node.model_copy() == node
    assert [kind.value for kind in StepType] == ["node", "tool", "message", "conditional"]


def test_wrong_trajectory_step() -> None:
    """Steps are validated although they are no models."""
    with pytest.raises(ValidationError):
        TrajectoryStep(step_type="jump", name="x")  # type: ignore[arg-type]


# ToolCall.matches


@pytest.mark.parametrize(
    ("expected", "other", "options", "matches"),
    [
        (ToolCall(name="find"), ToolCall(name="find"), {}, True),
        (ToolCall(name="find"), ToolCall(name="Find"), {}, False),
        (ToolCall(name="find"), ToolCall(name="find", args={"q": 1}), {}, True),
        (ToolCall(name="find", args={"q": 1}), ToolCall(name="find", args={"q": 2}), {}, False),
        (ToolCall(name="find", args={"q": 1}), ToolCall(name="find", args={"q": 2}), {"check_args": False}, True),
        (ToolCall(name="find", args={"q": 1}), ToolCall(name="find"), {}, False),
        (ToolCall(name="find", args={"q": {"$type": "number"}}), ToolCall(name="find", args={"q": 2}), {}, True),
        (ToolCall(name="find", args={"q": {"$gt": 1}}), ToolCall(name="find", args={"q": {"$gt": 1}}), {}, False),
        (ToolCall(name="find", call_id="1"), ToolCall(name="find", call_id="2"), {}, True),
        (ToolCall(name="find", call_id="1"), ToolCall(name="find", call_id="2"), {"check_call_id": True}, False),
        (ToolCall(name="find", call_id="1"), ToolCall(name="find", call_id="1"), {"check_call_id": True}, True),
        (ToolCall(name="find", result=1), ToolCall(name="find", error="down"), {}, True),
    ],
)
def test_tool_call_matches(expected: ToolCall, other: ToolCall, options: dict[str, bool], matches: bool) -> None:
    """Names are always equal; arguments count only where the expected call states some."""
    assert matches == expected.matches(other, **options)


# Absent is not empty


@pytest.mark.parametrize(
    ("turn", "tools", "nodes", "text"),
    [
        ({}, None, None, None),
        ({"expected_tool_trajectory": None, "expected_node_order": None}, None, None, None),
        ({"expected_final_response": None}, None, None, None),
        ({"expected_tool_trajectory": []}, [], None, None),
        ({"expected_node_order": []}, None, [], None),
        ({"expected_node_order": ["A"]}, None, ["A"], None),
        ({"expected_final_response": {"role": "assistant", "content": ""}}, None, None, ""),
    ],
)
def test_absent_is_not_empty(tmp_path: Path, turn: dict[str, Any], tools: Any, nodes: Any, text: str | None) -> None:
    """Left out or null is not stated, empty is stated, in code and through any number of files."""
    first = load_turn(tmp_path, **turn)
    again = load_turn(tmp_path, **json.loads(json.dumps(turn)))
    eval_set = EvalSet(eval_cases=[EvalCase(eval_id="c", conversation=[again])])
    eval_set.to_file(tmp_path / "again.json")
    second = EvalSet.from_file(tmp_path / "again.json").eval_cases[0].conversation[0]
    for loaded in (first, second):
        assert (tools, nodes, text) == (loaded.expected_tools, loaded.expected_nodes, loaded.expected_text)
        assert isinstance(loaded.expected_tool_trajectory, list)
        assert isinstance(loaded.expected_node_order, list)


@pytest.mark.parametrize("given", [None, (), ("A",)])
def test_absent_is_not_empty_in_factories(given: tuple[str, ...] | None) -> None:
    """None leaves an expectation out, an empty sequence states it."""
    case = EvalCase.single_turn("c", "q", None, None if given is None else [ToolCall(name=n) for n in given], given)
    (turn,) = case.conversation
    assert (None if given is None else list(given)) == turn.expected_nodes
    assert (turn.expected_tools is None) == (given is None)


def test_appending_states_an_expectation(tmp_path: Path) -> None:
    """Lists that are filled in place count as given and are saved."""
    case = EvalCase(eval_id="c", conversation=[Invocation.simple("q")])
    case.conversation[0].expected_tool_trajectory.append(ToolCall(name="hours"))
    case.conversation[0].expected_node_order.append("MAIN")
    case.tags.append("smoke")
    case.metadata["owner"] = "ops"
    case.session_input.state["cart"] = [1]
    eval_set = EvalSet(eval_set_id="s")
    eval_set.add_case(case)
    assert case.conversation[0].expected_tools == [ToolCall(name="hours")]
    assert case.conversation[0].expected_nodes == ["MAIN"]
    (written,) = saved(eval_set, tmp_path)["eval_cases"]
    assert written["conversation"][0]["expected_tool_trajectory"] == [{"name": "hours"}]
    assert written["conversation"][0]["expected_node_order"] == ["MAIN"]
    assert (written["tags"], written["metadata"]) == (["smoke"], {"owner": "ops"})
    assert written["session_input"] == {"state": {"cart": [1]}}


def test_ids_are_their_own() -> None:
    """Who seeds Python's random numbers gets different ids all the same, and the numbers that were asked for."""
    random.seed(5)
    first, wanted = EvalCase().eval_id, random.random()
    random.seed(5)
    second, number = EvalCase().eval_id, random.random()
    assert first != second
    assert wanted == number
    assert uuid.UUID(first).version == 4


# Files


def test_generated_ids(tmp_path: Path) -> None:
    """Ids that a file leaves out are the same on every load and are not written back."""
    cases: list[dict[str, Any]] = [
        {"conversation": [{"user_content": QUESTION}] * 2},
        {"eval_id": "own", "conversation": [{"user_content": QUESTION}]},
    ]
    first, second = load(tmp_path, *cases), load(tmp_path, *cases)
    assert first == second
    assert first.eval_set_id == "hours"
    assert [case.eval_id for case in first] == ["case_1", "own"]
    assert [turn.invocation_id for turn in first.eval_cases[0].conversation] == ["turn_1", "turn_2"]
    assert saved(first, tmp_path) == {"eval_cases": cases}


def test_random_ids_in_code(tmp_path: Path) -> None:
    """Ids made up in code are not written either, given ones are."""
    eval_set = EvalSet(eval_cases=[EvalCase(conversation=[Invocation.simple("q")])])
    (written,) = saved(eval_set, tmp_path)["eval_cases"]
    assert list(written) == ["conversation"]
    assert list(written["conversation"][0]) == ["user_content"]


@pytest.mark.parametrize(
    ("calls", "place", "message"),
    [
        ([{"name": "log", "args": {"day": {"$regex": "([0-9"}}}], "expected_tool_trajectory[0].args.day", "position"),
        ([{"name": "a"}, {"name": "b", "args": {"x": [{"$max": 1}]}}], "expected_tool_trajectory[1].args.x[0]", "$max"),
    ],
)
def test_matchers_are_checked_on_load(tmp_path: Path, calls: list[Any], place: str, message: str) -> None:
    """A matcher that makes no sense is an error of the file."""
    with pytest.raises(LoadError) as caught:
        load_turn(tmp_path, expected_tool_trajectory=calls)
    assert f"eval_cases[0].conversation[0].{place}: " in str(caught.value)
    assert message in str(caught.value)


def test_duplicate_ids(tmp_path: Path) -> None:
    """Every id that occurs again is told with its place."""
    case = {"eval_id": "a", "conversation": [{"user_content": QUESTION}]}
    with pytest.raises(LoadError) as caught:
        load(tmp_path, case, case, {**case, "eval_id": "b"}, case)
    assert [problem.place for problem in caught.value.problems] == ["eval_cases[1].eval_id", "eval_cases[3].eval_id"]
    assert '"a" is already the id of eval_cases[0]' in str(caught.value)


def test_conversation_and_scenario(tmp_path: Path) -> None:
    """A case is played from a conversation or by a simulated user."""
    scenario = {"starting_prompt": "Hi", "conversation_plan": "Ask for the hours.", "goals": ["knows the hours"]}
    case = {"eval_id": "a", "conversation": [{"user_content": QUESTION}], "scenario": scenario}
    with pytest.raises(LoadError, match=r"eval_cases\[0\].scenario: a case has a conversation or a scenario, not both"):
        load(tmp_path, case)


def test_generated_id_that_is_taken(tmp_path: Path) -> None:
    """A case named like a generated id collides visibly."""
    conversation = [{"user_content": QUESTION}]
    with pytest.raises(LoadError, match="case_2"):
        load(tmp_path, {"eval_id": "case_2", "conversation": conversation}, {"conversation": conversation})


def test_no_warning_for_plain_sets(tmp_path: Path) -> None:
    """A set without oddities loads silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoadWarning)
        load(tmp_path, {"eval_id": "straße", "conversation": [{"user_content": QUESTION}]})


def test_criteria_of_cases_and_turns(tmp_path: Path) -> None:
    """Overrides survive a file, switched off or null included."""
    case = EvalCase(
        eval_id="c",
        conversation=[Invocation.simple("q")],
        criteria=CriteriaConfig(rouge_match=CriterionConfig.rouge_match(0.2), safety=None),
        budget=CriterionConfig.budget(max_tool_calls=0),
        timeout=1.5,
        trials=3,
        skip="later",
        on_turn_error="continue",
    )
    case.conversation[0].criteria = CriteriaConfig(node_order=CriterionConfig(enabled=False))
    eval_set = EvalSet(eval_set_id="s", eval_cases=[case])
    written = saved(eval_set, tmp_path)
    assert written["eval_cases"][0]["criteria"] == {"rouge_match": {"threshold": 0.2}, "safety": None}
    loaded = EvalSet.from_file(tmp_path / "saved.json")
    assert loaded.model_dump(exclude_unset=True) == eval_set.model_dump(exclude_unset=True)


def test_values_that_json_lacks(tmp_path: Path) -> None:
    """NaN in expected arguments is written as text that means the same, so that the file is JSON."""
    call = ToolCall(name="plot", args={"y": float("nan"), "top": float("inf")})
    eval_set = EvalSet(eval_cases=[EvalCase.single_turn("c", "q", expected_tools=[call])])
    saved(eval_set, tmp_path)
    (turn,) = EvalSet.from_file(tmp_path / "saved.json").eval_cases[0].conversation
    assert "NaN," not in (tmp_path / "saved.json").read_text().replace('"NaN",', "")
    assert turn.expected_tool_trajectory[0].matches(call)
    assert not turn.expected_tool_trajectory[0].matches(ToolCall(name="plot", args={"y": None, "top": None}))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
words = names.filter(lambda text: bool(text.strip()))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
objects = st.dictionaries(texts, json_values, max_size=2)
literals = st.dictionaries(texts, json_values.map(lambda value: {"$literal": value}), max_size=2)
messages = st.builds(MessageContent, role=st.just("assistant"), content=texts | st.lists(objects, max_size=2))


def some(cls: Any, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Instances to which any part of the fields is given."""
    return st.fixed_dictionaries({}, optional=fields).map(lambda values: cls(**values))


def turns() -> st.SearchStrategy[Any]:
    """Turns with any expectations."""
    return st.fixed_dictionaries(
        {"user_content": messages},
        optional={
            "invocation_id": names,
            "expected_tool_trajectory": st.lists(some(lambda **v: ToolCall(name="t", **v), args=literals), max_size=2),
            "expected_node_order": st.none() | st.lists(names, max_size=2),
            "expected_final_response": st.none() | messages,
            "expected_keywords": st.lists(words, max_size=2),
            "criteria": st.none() | st.just(CriteriaConfig(rouge_match=CriterionConfig.rouge_match(0.1))),
        },
    ).map(lambda values: Invocation(**values))


cases = some(
    EvalCase,
    name=texts,
    conversation=st.lists(turns(), min_size=1, max_size=2),
    session_input=some(SessionInput, user_id=texts, state=objects),
    tags=st.lists(names, max_size=2),
    metadata=objects,
    timeout=st.none() | st.floats(0.1, 10),
    skip=st.none() | names,
).map(lambda case: case.model_copy(update={"conversation": case.conversation or [Invocation.simple("q")]}))
eval_sets = some(EvalSet, eval_set_id=names, name=texts, eval_cases=st.lists(cases, max_size=2), metadata=objects)


@given(eval_sets)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_save_then_load_is_the_identity(tmp_path: Path, eval_set: EvalSet) -> None:
    """What was written is read, nothing more and nothing less, and writes the same bytes again."""
    first, second = tmp_path / "set.json", tmp_path / "set.again.json"
    eval_set.to_file(first)
    loaded = EvalSet.from_file(first)
    loaded.to_file(second)
    assert first.read_bytes() == second.read_bytes()
    assert json.loads(eval_set.model_dump_json(exclude_unset=True)) == json.loads(first.read_text())
    pairs = zip(eval_set, loaded, strict=True)
    stated = [
        (a.expected_tools, a.expected_nodes, a.expected_text) == (b.expected_tools, b.expected_nodes, b.expected_text)
        for one, two in pairs
        for a, b in zip(one.conversation, two.conversation, strict=True)
    ]
    assert all(stated)


# Methods of sets


def test_container() -> None:
    """A set counts, iterates over, finds and filters its cases."""
    first, second = EvalCase(eval_id="a", tags=["x", "y"]), EvalCase(eval_id="b", tags=["y"])
    eval_set = EvalSet(eval_cases=[first])
    eval_set.add_case(second)
    assert (len(eval_set), list(eval_set)) == (2, [first, second])
    assert eval_set.get_case("b") is second
    assert eval_set.get_case("c") is None
    assert eval_set.filter_by_tags(["y"]) == [first, second]
    assert eval_set.filter_by_tags(["x", "y"]) == [first]
    assert eval_set.filter_by_tags("y") == [first, second]
    assert eval_set.filter_by_tags([]) == [first, second]
    assert eval_set.filter_by_tags(["X"]) == []


def test_save_is_to_file(tmp_path: Path) -> None:
    """Both names write the same."""
    eval_set = EvalSet(eval_set_id="s", eval_cases=[EvalCase.single_turn("c", "Öffnet es?")])
    eval_set.save(tmp_path / "a.json")
    eval_set.to_file(str(tmp_path / "b.json"))
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.json").read_text(encoding="utf-8")
    assert "Öffnet" in text
    assert text.endswith("}\n")


def test_schema_address_is_kept(tmp_path: Path) -> None:
    """Editors find the schema again after a save."""
    eval_set = load(tmp_path, **{"$schema": "https://example.org/s.json"})
    assert saved(eval_set, tmp_path) == {"$schema": "https://example.org/s.json", "eval_cases": []}
