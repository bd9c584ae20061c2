"""The JSON report."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentflow_eval._values import jsonable
from agentflow_eval.reporters import JSONReporter
from agentflow_eval.result import CriterionResult, EvalReport, Outcome
from tests.reporters.golden import golden, golden_report
from tests.reporters.samples import case, large_report, report_of, rouge, sample_report, tool, turn, weather_passed


def strict(text: str) -> Any:
    """The parsed text; NaN and the infinities are refused."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def report_with(**values: Any) -> EvalReport:
    """A report of one failed case with these fields."""
    return report_of([case("c1", Outcome.FAILED, [rouge(0.1)], [turn(0, "q", "a")]).model_copy(update=values)])


def test_golden() -> None:
    """The whole file of a report with every outcome."""
    text = JSONReporter().render(golden_report())
    assert golden("report.json", text) == text


@pytest.mark.parametrize("indent", [2, None, 4])
@pytest.mark.parametrize("report", [sample_report(), large_report(20), report_of([])])
def test_round_trip(report: EvalReport, indent: int | None, tmp_path: Path) -> None:
    """A saved report loads as an equal one, whatever the indent."""
    path = JSONReporter(indent=indent).save(report, tmp_path / "r.json")
    assert report == EvalReport.from_file(path)
    strict(path.read_text(encoding="utf-8"))


def test_words_that_look_like_numbers() -> None:
    """Texts that contain NaN and Infinity stay as they are."""
    report = report_with(actual_response="BaNaNa Infinity")
    assert JSONReporter().to_dict(report)["results"][0]["actual_response"] == "BaNaNa Infinity"


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
@pytest.mark.parametrize("indent", [2, None])
def test_odd_numbers(value: float, text: str, indent: int | None) -> None:
    """NaN and the infinities become text, since JSON has no other way to say them."""
    report = report_with(metadata={"loss": [value, "NaN"]}, duration_seconds=value)
    content = strict(JSONReporter(indent=indent).to_json(report))["results"][0]
    assert ({"loss": [text, "NaN"]}, text) == (content["metadata"], content["duration_seconds"])


def test_odd_keys(tmp_path: Path) -> None:
    """A recorded tool result with keys that are not text is written with keys that are."""
    call = tool("t", {}, jsonable({1: "a", ("t", 2): "b", None: "c"}))
    path = JSONReporter().save(report_with(actual_tool_calls=[call]), tmp_path / "r.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert list(content["results"][0]["actual_tool_calls"][0]["result"]) == ["1", "('t', 2)", "None"]


class Odd:
    """A value that JSON does not know."""

    def __repr__(self) -> str:
        return "Odd \ud800"


def test_odd_values(tmp_path: Path) -> None:
    """A value that JSON or UTF-8 cannot hold is made visible and costs nothing else of the report."""
    report = report_with(metadata={"odd": Odd(), "half": "\ud83d", "number": math.nan, 3: {1}}, name="\udc00")
    path = JSONReporter().save(report, tmp_path / "r.json")
    content = strict(path.read_text(encoding="utf-8"))["results"][0]
    assert content["metadata"] == {"odd": "Odd \\ud800", "half": "\\ud83d", "number": "NaN", "3": [1]}
    assert (content["name"], content["turn_results"][0]["user_input"]) == ("\\udc00", "q")
    assert EvalReport.from_file(path).results[0].eval_id == "c1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_json_value(metadata: dict[str, Any]) -> None:
    """Every JSON value comes back as it was."""
    text = JSONReporter().to_json(report_with(metadata=metadata))
    assert metadata == strict(text)["results"][0]["metadata"]


def test_hidden_details() -> None:
    """Without details only the reasons are kept."""
    report = report_of([case("c1", Outcome.FAILED, [rouge(0.1, "why"), rouge(0.9)])])
    results = JSONReporter(include_details=False).to_dict(report)["results"][0]["criterion_results"]
    assert [item["details"] for item in results] == [{"reason": "why"}, {}]


def test_hidden_trajectory() -> None:
    """Without the trajectory no step is kept."""
    content = JSONReporter(include_trajectory=False).to_dict(report_of([weather_passed()]))["results"][0]
    assert content["actual_trajectory"] == []
    assert content["node_visits"] == ["MAIN", "TOOL", "MAIN"]


def test_hidden_node_responses() -> None:
    """Without node responses neither they nor their shorter form is kept."""
    content = JSONReporter(include_node_responses=False).to_dict(report_of([weather_passed()]))["results"][0]
    assert (content["node_responses"], content["node_details"]) == ([], [])


def test_hidden_answers() -> None:
    """Without answers none is kept, neither in the turns nor in details and messages."""
    details = {"actual_response": "secret", "f1": 0.1}
    result = CriterionResult.scored("x", 1.0, 0.5, details)
    report = report_of([case("c1", Outcome.PASSED, [result], [turn(0, "q", "secret")])])
    text = JSONReporter(include_actual_response=False).render(report)
    assert "secret" not in text
    assert strict(text)["results"][0]["criterion_results"][0]["details"] == {"f1": 0.1}
    assert "secret" in JSONReporter().render(report)


def test_hidden_tool_calls() -> None:
    """Without details of tool calls only their names are kept, in trials and expectations too."""
    inner = weather_passed()
    report = report_of([inner.model_copy(update={"trials": [inner]})])
    content = JSONReporter(include_tool_call_details=False).to_dict(report)["results"][0]
    bare: dict[str, Any] = {"name": "get_weather", "args": {}, "call_id": None, "result": None, "error": None}
    only = content["turn_results"][0]
    assert [[bare]] * 3 == [content["actual_tool_calls"], only["tool_calls"], only["expected_tool_calls"]]
    assert [bare] == content["trials"][0]["actual_tool_calls"]
    assert [step["args"] for step in content["actual_trajectory"]] == [{}, {}, {}, {}]


def test_hidden_parts_load(tmp_path: Path) -> None:
    """A report without any of its optional parts is still a report, and the original is unchanged."""
    report, before = sample_report(), sample_report()
    path = JSONReporter(2, False, False, False, False, False).save(report, tmp_path / "r.json")
    assert report.summary == EvalReport.from_file(path).summary
    assert before == report


def test_file_name(tmp_path: Path) -> None:
    """`generate` gives the text, or the path of report.json."""
    report = report_of([])
    assert JSONReporter().to_json(report) == JSONReporter().generate(report)
    assert str(tmp_path / "report.json") == JSONReporter().generate(report, tmp_path)


def test_quick_save(tmp_path: Path) -> None:
    """`quick_save` writes everything with the indent that is asked for."""
    path = JSONReporter.quick_save(sample_report(), str(tmp_path / "deep" / "r.json"), indent=None)
    assert path.read_text(encoding="utf-8").count("\n") == 1
    assert sample_report() == EvalReport.from_file(path)
