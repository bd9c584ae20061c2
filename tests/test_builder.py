"""Building eval sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentflow_eval import EvalSet, EvalSetBuilder, ToolCall, UsageError


def test_chained_calls() -> None:
    """Every kind of case, with ids in order."""
    eval_set = (
        EvalSetBuilder("fares")
        .add_case("To Bern?", "12 francs", expected_tools=["fare", ToolCall(name="tax", args={"c": "CH"})])
        .add_case("To Rome?", None, case_id="rome", expected_node_order=["MAIN"], name="Rome", description="far")
        .add_multi_turn([("Hi", "Hello"), ("Bye", "See you")], expected_tools=["greet"])
        .add_tool_test("To Oslo?", "fare", {"to": "Oslo"})
        .add_tool_test("To Ulm?", "fare", expected_response="9 euros")
        .build()
    )
    assert eval_set.name == "fares"
    assert [case.eval_id for case in eval_set] == ["case_1", "rome", "case_3", "case_4", "case_5"]
    first, rome, multi, oslo, ulm = (case.conversation[0] for case in eval_set)
    assert first.expected_tools == [ToolCall(name="fare"), ToolCall(name="tax", args={"c": "CH"})]
    assert (rome.expected_text, rome.expected_tools, rome.expected_nodes) == (None, None, ["MAIN"])
    assert multi.expected_tools == [ToolCall(name="greet")]
    assert (oslo.expected_text, oslo.expected_tools) == (
        "Result from fare",
        [ToolCall(name="fare", args={"to": "Oslo"})],
    )
    assert ulm.expected_text == "9 euros"


def test_ids() -> None:
    """A taken id is refused, and a generated one makes way."""
    builder = EvalSetBuilder().add_case("a", "b", case_id="case_2")
    with pytest.raises(UsageError, match="'case_2' is taken"):
        builder.add_multi_turn([("a", "b")], case_id="case_2")
    assert [case.eval_id for case in builder.add_case("c", "d").build()] == ["case_2", "case_3"]
    assert EvalSetBuilder().build().eval_set_id != EvalSetBuilder().build().eval_set_id
    assert EvalSetBuilder().build().name == "eval_set"


def test_no_tools_may_be_expected() -> None:
    """An empty list of tools is an expectation, None is none."""
    eval_set = EvalSetBuilder().add_case("a", "b", expected_tools=[]).add_case("a", "b").build()
    assert [case.conversation[0].expected_tools for case in eval_set] == [[], None]


def test_from_conversations() -> None:
    """One case for each conversation; an answer may be missing."""
    builder = EvalSetBuilder.from_conversations([{"user": "Hi", "assistant": "Hello"}, {"user": "Bye"}])
    eval_set = builder.build()
    assert eval_set.name == "conversation_tests"
    assert [case.eval_id for case in eval_set] == ["conv_1", "conv_2"]
    assert [case.conversation[0].expected_text for case in eval_set] == ["Hello", None]


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        ({"assistant": "Hello"}, r"conversations\[0\]: required key 'user' is missing"),
        (
            {"user": "Hi", "asistant": "Hello"},
            r"\[0\]: unknown key 'asistant' \(allowed: user, assistant\)",
        ),
    ],
)
def test_wrong_conversations(conversation: dict[str, str], message: str) -> None:
    """A misspelt key is not an answer that nobody checks."""
    with pytest.raises(UsageError, match=message):
        EvalSetBuilder.from_conversations([conversation])


def test_quick() -> None:
    """Pairs become a set at once."""
    eval_set = EvalSetBuilder.quick(("1+1", "2"), ("2+2", "4"))
    assert [case.eval_id for case in eval_set] == ["test_1", "test_2"]
    assert [case.conversation[0].expected_text for case in eval_set] == ["2", "4"]


def test_save_and_go_on(tmp_path: Path) -> None:
    """A saved set can be continued with its own id, texts and cases."""
    builder = EvalSetBuilder("fares").add_case("To Bern?", "12 francs")
    builder.description, builder.metadata = "All fares", {"owner": "sales"}
    built = builder.save(tmp_path / "fares.json")
    loaded = EvalSet.from_file(tmp_path / "fares.json")
    assert loaded.model_dump(exclude_unset=True) == built.model_dump(exclude_unset=True)
    again = EvalSetBuilder.from_file(tmp_path / "fares.json").add_case("To Ulm?", "9 euros").build()
    assert (again.eval_set_id, again.name) == (built.eval_set_id, "fares")
    assert (again.description, again.metadata) == ("All fares", {"owner": "sales"})
    assert [case.eval_id for case in again] == ["case_1", "case_2"]
    assert len(built) == 1
