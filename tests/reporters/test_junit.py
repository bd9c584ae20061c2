"""JUnit XML that every CI server reads."""

from __future__ import annotations

import locale
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junitparser import JUnitXml
from lxml import etree

from agentflow_eval.errors import UsageError
from agentflow_eval.reporters.junit import JUnitXMLReporter, Profile, render_many
from agentflow_eval.result import CriterionResult, ErrorKind, EvalCaseResult, EvalReport, Outcome
from tests.reporters.golden import golden, golden_report
from tests.reporters.samples import TRACEBACK, case, report_of, rouge, sample_report, tool, trajectory, turn

SCHEMAS = Path(__file__).parent / "schemas"
JENKINS, ANT = (etree.XMLSchema(etree.parse(str(SCHEMAS / name))) for name in ("junit-10.xsd", "JUnit.xsd"))
VALID_IN = {"default": [JENKINS], "strict": [JENKINS, ANT], "extended": []}
PROFILES = get_args(Profile)

failed = CriterionResult.scored


def result(eval_id: str = "c1", outcome: Outcome = Outcome.PASSED, **more: Any) -> EvalCaseResult:
    """A result with a passed or failed criterion, as the outcome wants it."""
    criteria = {Outcome.PASSED: [rouge(0.9)], Outcome.FAILED: [rouge(0.2)]}.get(outcome, [])
    if outcome is Outcome.ERROR:
        more = {"error": "RuntimeError: no", "error_kind": ErrorKind.AGENT} | more
    return case(eval_id, outcome, more.pop("criteria", criteria), more.pop("turns", []), **more)


def xml(*results: EvalCaseResult, profile: Profile = "default", **more: Any) -> ET.Element:
    """The parsed document of a report of these results."""
    return ET.fromstring(text(*results, profile=profile, **more))


def text(*results: EvalCaseResult, profile: Profile = "default", **more: Any) -> str:
    """The document of a report of these results."""
    return JUnitXMLReporter(profile=profile).render(report_of(list(results), **more))


def one(document: ET.Element, path: str) -> ET.Element:
    """The only element at this path."""
    (found,) = document.iter(path)
    return found


def problems(document: str, profile: str) -> list[str]:
    """What the schemas of the profile say against the document."""
    parsed = etree.fromstring(document.encode())
    return [str(schema.error_log) for schema in VALID_IN[profile] if not schema.validate(parsed)]


def test_golden() -> None:
    """The whole document of a report with every outcome."""
    document = JUnitXMLReporter().render(golden_report())
    assert golden("junit.xml", document) == document


@pytest.mark.parametrize("profile", PROFILES)
def test_readers(profile: Profile) -> None:
    """Two parsers read every profile alike, and what hostile texts say stays text."""
    document = JUnitXMLReporter(profile=profile).render(sample_report())
    suite = next(iter(JUnitXml.fromstring(document.encode())))
    assert (suite.name, suite.tests, suite.failures, suite.errors, suite.skipped) == ("Travel assistant", 28, 14, 5, 1)
    names = [element.get("name") for element in ET.fromstring(document).iter("testcase")]
    assert [test.name for test in suite] == names
    assert "hostile_entity - &lt;b&gt; &amp; &#39;" in names


@pytest.mark.parametrize("profile", ["default", "strict"])
def test_schemas(profile: Profile) -> None:
    """The default is valid for the Jenkins xUnit plugin, strict also in the Ant schema."""
    assert problems(JUnitXMLReporter(profile=profile).render(sample_report()), profile) == []


ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from("\x00\x1b\x9b\r\ud800\ufffe&<]"), max_size=30)


@settings(deadline=None)
@given(ANY_TEXT, st.floats(), st.sampled_from(["default", "strict"]))
def test_any_text(value: str, duration: float, profile: Profile) -> None:
    """Whatever the text and the duration are, the document is well-formed and valid."""
    criterion = CriterionResult.broken("c", 0.5, "x").model_copy(
        update={"criterion": value, "details": {"reason": value, "judge_model": value}, "error": value}
    )
    more: dict[str, object] = {"error": value, "error_traceback": value, "stdout": value, "eval_id": value}
    more |= {"retried_errors": [value], "side_errors": [value]}
    only = turn(0, "q", "a", expected_response="b").model_copy(update={"user_input": value, "agent_response": value})
    base = result(outcome=Outcome.ERROR, turns=[only], criteria=[criterion])
    results = [
        base.model_copy(update=more | {"duration_seconds": duration}),
        result(outcome=Outcome.FAILED).model_copy(update={"eval_id": value, "stdout": value}),
        result(outcome=Outcome.SKIPPED).model_copy(update={"name": value, "skip_reason": value}),
    ]
    names = dict.fromkeys(("eval_set_id", "eval_set_name", "run_id", "started_at", "eval_set_file"), value)
    report = report_of(results).model_copy(update=names | {"timestamp": duration})
    assert problems(JUnitXMLReporter(value, profile).render(report), profile) == []


def test_control_characters() -> None:
    """Colours are removed, other characters that XML forbids are shown."""
    reason = "bad \x00\x01\x1b[31mred\x1b[0m \x12 end"
    failure = one(xml(result(outcome=Outcome.FAILED, criteria=[rouge(0.1, reason)])), "failure")
    assert "bad \\x00\\x01red \\x12 end" in str(failure.text)
    assert "bad \\x00\\x01red \\x12 end" in failure.attrib["message"]


def test_surrogates() -> None:
    """Half of a surrogate pair and a non-character are shown."""
    reason = "a \ud800 b \ufffe c"
    assert "a \\ud800 b \\ufffe c" in str(
        one(xml(result(outcome=Outcome.FAILED, criteria=[rouge(0.1, reason)])), "failure").text
    )


def test_astral_names() -> None:
    """Characters beyond the first plane survive."""
    assert one(xml(result("case 😀 𠀀")), "testcase").get("name") == "case 😀 𠀀"


def test_one_line_names() -> None:
    """White space in names is collapsed, and the full name is kept in the output."""
    document = xml(result("a\nb\tc"))
    assert one(document, "testcase").get("name") == "a b c"
    assert str(one(document, "system-out").text).startswith("full name: a\nb\tc\n")


def test_long_names() -> None:
    """Names have at most 250 characters and still differ; the number of the run stays."""
    long = "x" * 400
    repeated = result(long, trials=[result(long), result(long)])
    names = [str(element.get("name")) for element in xml(result(long), result(long + "y"), repeated).iter("testcase")]
    assert (len(set(names)), max(map(len, names))) == (4, 250)
    assert names[-1].endswith(" [run 2/2]")


@pytest.mark.parametrize(
    ("duration", "time"),
    [
        (0.5, "0.500"),
        (-0.001, "0.000"),
        (0.0, "0.000"),
        (1e-7, "0.000"),
        (1234.5678, "1234.568"),
        (float("nan"), "0.000"),
        (float("inf"), "0.000"),
        (1e300, "999999999.000"),
    ],
)
def test_times(duration: float, time: str) -> None:
    """Times have three decimals, no exponent, and are never negative."""
    document = text(result(duration_seconds=duration))
    assert problems(document, "default") == []
    parsed = ET.fromstring(document)
    assert [time] * 3 == [one(parsed, name).get("time") for name in ("testcase", "testsuite", "testsuites")]


def test_times_in_other_locales() -> None:
    """A locale with a decimal comma changes nothing."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        for name in ("de_DE.UTF-8", "de_DE", "German"):
            try:
                locale.setlocale(locale.LC_ALL, name)
            except locale.Error:
                continue
            break
        assert one(xml(result(duration_seconds=0.5)), "testcase").get("time") == "0.500"
    finally:
        locale.setlocale(locale.LC_ALL, before)


def test_counts() -> None:
    """Suite and root count test cases alike."""
    outcomes = [Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED, Outcome.FAILED]
    document = xml(*[result(f"c{number}", outcome) for number, outcome in enumerate(outcomes)])
    wanted = {"tests": "5", "failures": "2", "errors": "1"}
    assert wanted == {key: document.attrib[key] for key in wanted}
    assert wanted | {"skipped": "1"} == {key: one(document, "testsuite").attrib[key] for key in [*wanted, "skipped"]}


def test_one_failure() -> None:
    """Two failed criteria are one failure, whose body and message name both."""
    criteria = [trajectory(0.0, "step 2: lookup() was not called"), rouge(0.31)]
    failure = one(xml(result(outcome=Outcome.FAILED, criteria=criteria)), "failure")
    message = "tool_trajectory_avg_score 0.00 < 1.00: step 2: lookup() was not called; rouge_match 0.31 < 0.60"
    assert ("CriterionFailed", message) == (failure.get("type"), failure.get("message"))
    body = str(failure.text)
    assert "tool_trajectory_avg_score 0.00 (threshold 1.00) FAIL: step 2: lookup() was not called" in body
    assert "rouge_match 0.31 (threshold 0.60) FAIL" in body


def test_error_before_failure() -> None:
    """A case with a failed and a broken criterion is an error, whose body names both."""
    broken = CriterionResult.broken("llm_judge", 0.8, "no reply", {"error_kind": "judge"})
    document = xml(result(outcome=Outcome.FAILED, criteria=[trajectory(0.0, "no call"), broken]))
    error = one(document, "error")
    assert (error.get("type"), list(document.iter("failure"))) == ("JudgeError", [])
    assert all(name in str(error.text) for name in ("tool_trajectory_avg_score", "llm_judge"))


@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_selected(profile: Profile) -> None:
    """A report without cases has one errored test case, since servers take an empty one for success."""
    document = xml(profile=profile)
    assert one(document, "testcase").get("name") == "no cases selected"
    assert one(document, "testsuite").get("errors") == "1"
    assert one(document, "error").get("type") == "NothingSelected"


def test_equal_names() -> None:
    """Cases of the same name differ by id, and cases of the same id by a number."""
    document = xml(result("a1", name="Refund"), result("a2", name="Refund"), result("a2", name="Refund"))
    names = [element.get("name") for element in document.iter("testcase")]
    assert names == ["a1 - Refund", "a2 - Refund", "a2 - Refund (2)"]


def test_trials() -> None:
    """Each run of a repeated case is a test case of its own."""
    runs = [result("c1"), result("c1", Outcome.FAILED), result("c1")]
    document = xml(result("c1", Outcome.FAILED, trials=runs))
    assert [e.get("name") for e in document.iter("testcase")] == ["c1 [run 1/3]", "c1 [run 2/3]", "c1 [run 3/3]"]
    assert (document.get("tests"), document.get("failures")) == ("3", "1")


def test_default_attributes() -> None:
    """The default has no attribute that Jenkins' schema refuses."""
    document = xml(result(), result("c2", Outcome.SKIPPED, skip_reason="later"))
    assert {"name", "tests", "failures", "errors", "time"} == set(document.attrib)
    for element in document.iter("testcase"):
        assert {"name", "classname", "time"} == set(element.attrib)
    assert one(document, "skipped").attrib == {"message": "later"}


def test_several_sets() -> None:
    """Each set is a suite; one without cases does not hide the next; equal names are told apart."""
    reports = [report_of([]), report_of([result()]), report_of([result()], eval_set_name="Other")]
    document = ET.fromstring(render_many(reports))
    suites = list(document.iter("testsuite"))
    assert [suite.get("name") for suite in suites] == ["Travel assistant", "Travel assistant (2)", "Other"]
    assert [suite.get("id") for suite in suites] == ["0", "1", "2"]
    classes = [element.get("classname") for element in document.iter("testcase")]
    assert classes == ["agentflow_eval.travel", "agentflow_eval.travel_2", "agentflow_eval.travel_3"]
    assert (document.get("tests"), document.get("errors")) == ("3", "1")


def test_no_sets() -> None:
    """No report at all is an error too."""
    assert one(ET.fromstring(render_many([])), "testcase").get("name") == "no cases selected"


def test_scores_in_the_output() -> None:
    """The output of a test case is its table of scores."""
    criteria = [failed("rouge_match", 0.62, 0.8), CriterionResult.skipped("node_order_score", 1.0, "none stated")]
    document = xml(result(outcome=Outcome.FAILED, criteria=criteria))
    assert one(document, "system-out").text == "rouge_match 0.62 (threshold 0.80) FAIL\nnode_order_score SKIPPED"


def test_close_scores() -> None:
    """A score just below its threshold does not look equal to it."""
    failure = one(xml(result(outcome=Outcome.FAILED, criteria=[failed("judge", 0.79999, 0.8)])), "failure")
    assert failure.get("message") == "judge 0.79999 < 0.80000"


def test_strict_output() -> None:
    """In the strict profile output stands in the suite and the root has no attributes."""
    document = xml(result(), profile="strict")
    assert one(document, "system-out").text == "c1\nrouge_match 0.90 (threshold 0.60) PASS"
    assert (document.attrib, one(document, "testcase").find("system-out")) == ({}, None)
    assert [e.tag for e in one(document, "testsuite")] == ["properties", "testcase", "system-out", "system-err"]


def test_extended_properties() -> None:
    """The extended profile adds scores, tags and the file to each test case."""
    element = one(xml(result("c1", name="A\nB", tags=["x"]), profile="extended"), "testcase")
    assert element.get("file") == "evalsets/travel.json"
    found = {item.get("name"): item.get("value") for item in element.iter("property")}
    wanted = {"full_name": "c1 - A B", "tag": "x", "score.rouge_match": "0.9", "threshold.rouge_match": "0.6"}
    assert wanted == {key: found[key] for key in wanted}
    assert element[0].tag == "properties"


@pytest.mark.parametrize(
    ("more", "error_type", "message"),
    [
        ({"error": "turn 2: KeyError: 'x'"}, "KeyError", "KeyError: 'x'"),
        ({"error": "it broke"}, "AgentError", "it broke"),
        ({"error": "too slow", "error_kind": ErrorKind.TIMEOUT}, "Timeout", "too slow"),
        ({"error": "cut short", "error_kind": ErrorKind.NOT_RUN}, "NotRun", "cut short"),
        ({"error": "cut short", "error_kind": ErrorKind.CANCELLED}, "Cancelled", "cut short"),
        ({"error": "no event", "error_kind": ErrorKind.WIRING}, "WiringError", "no event"),
        ({"error": "nothing", "error_kind": ErrorKind.NOTHING_CHECKED}, "NothingChecked", "nothing"),
        ({"error": None, "error_kind": None}, "CriterionError", "error"),
    ],
)
def test_error_types(more: dict[str, Any], error_type: str, message: str) -> None:
    """An error says by its type what broke."""
    error = one(xml(result(outcome=Outcome.ERROR, **more)), "error")
    assert (error_type, message) == (error.get("type"), error.get("message"))


def test_error_is_told_once() -> None:
    """Criteria that were not scored because the run broke do not repeat why."""
    broken = CriterionResult.broken("rouge_match", 0.5, "not scored, because the run broke: RuntimeError: no")
    error = one(xml(result(outcome=Outcome.ERROR, criteria=[broken], error_traceback=TRACEBACK)), "error")
    assert error.get("message") == "RuntimeError: no"
    assert f"agent: RuntimeError: no\nrouge_match ERROR\n\n{TRACEBACK}" == error.text


def test_interrupted() -> None:
    """A report that was cut short without saying which cases are missing has an errored test case for them."""
    document = xml(result(), interrupted=True)
    assert [element.get("name") for element in document.iter("testcase")] == ["c1", "run interrupted"]
    assert one(document, "error").get("type") == "NotRun"
    listed = xml(result(), result("c2", Outcome.ERROR, error_kind=ErrorKind.NOT_RUN), interrupted=True)
    assert listed.get("tests") == "2"


def test_mock() -> None:
    """A mock run says so in the names of suite and class and in the output."""
    document = xml(result(), mock=True)
    assert one(document, "testsuite").get("name") == "Travel assistant [mock run]"
    assert one(document, "testcase").get("classname") == "agentflow_eval.mock.travel"
    assert str(one(document, "system-out").text).startswith("MOCK RUN: no agent was run")


def test_long_bodies() -> None:
    """A body is cut with a marker; so is each text in it, so that what follows still has a place."""
    turns = [turn(number, "q", "y" * 9000, expected_response="x" * 9000) for number in range(5)]
    body = str(one(xml(result(outcome=Outcome.FAILED, turns=turns)), "failure").text)
    assert "[... 5,000 more characters]" in body
    assert body.endswith(" more characters]")
    assert 20_000 < len(body) < 20_100


def test_evidence() -> None:
    """The body shows question, expected and actual of the turn that a reason names."""
    second = turn(1, "And?", "no", expected_response="yes", tool_calls=[tool("a", {"x": 1})], node_visits=["MAIN"])
    turns = [turn(0, "Well?", "so"), second]
    criteria = [rouge(0.1, "turn 2: the answer is wrong")]
    failure = one(xml(result(outcome=Outcome.FAILED, criteria=criteria, turns=turns)), "failure")
    body = "turn 2\nquestion: And?\nexpected answer: yes\nactual answer: no\ntools: a(x=1)\nnodes: MAIN"
    assert body == str(failure.text).split("\n\n")[1]


def test_printed_by_the_agent() -> None:
    """What the agent printed is shown for cases that did not pass only, without its colours."""
    shown = one(xml(result(outcome=Outcome.FAILED, stdout="\\x1b[31mhelp\\x1b[0m\r\n")), "system-out")
    assert str(shown.text).endswith("printed by the agent:\nhelp\n")
    assert "printed" not in str(one(xml(result(stdout="help")), "system-out").text)


def test_no_attachments_by_agents() -> None:
    """An agent's output cannot make a server attach files."""
    document = text(result(outcome=Outcome.FAILED, stdout="[[ATTACHMENT|/etc/passwd]]"))
    assert "[[ATTACHMENT|" not in document
    assert "[ [ATTACHMENT|/etc/passwd]]" in document


@pytest.mark.parametrize(
    ("more", "timestamp"),
    [
        ({}, "2025-12-31T23:59:12"),
        ({"started_at": "2026-03-01T12:00:00.5+02:00"}, "2026-03-01T10:00:00"),
        ({"started_at": "2026-03-01T12:00:00"}, "2026-03-01T12:00:00"),
        ({"started_at": ""}, "2025-12-31T23:59:11"),
        ({"started_at": "yesterday", "timestamp": 1e30}, "1970-01-01T00:00:00"),
    ],
)
def test_timestamps(more: dict[str, Any], timestamp: str) -> None:
    """The start of the run in UTC, to the second and without a zone."""
    assert timestamp == one(xml(result(), **more), "testsuite").get("timestamp")


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("./sets/a.json", "sets/a.json"),
        ("sets\\a.json", "sets/a.json"),
        (str(Path.cwd() / "sets" / "a.json"), "sets/a.json"),
        ("/elsewhere/a.json", "a.json"),
        (None, None),
    ],
)
def test_files(given: str | None, file: str | None) -> None:
    """The file of a set is relative, with forward slashes."""
    assert file == one(xml(result(), eval_set_file=given), "testsuite").get("file")


def test_suite_properties() -> None:
    """The suite says what made it; the config itself, which may hold secrets, is not in it."""
    judge = failed("llm_judge", 0.9, 0.8, {"judge_model": "small"})
    suite = one(xml(result(criteria=[judge]), config_used={"token": "secret"}), "testsuite")
    found = {item.get("name"): item.get("value") for item in suite.iter("property")}
    wanted = {"eval_set_id": "travel", "config_hash": "5f2b8c1d9e3a4f60", "run_id": "run-0001", "judge_model": "small"}
    assert wanted == {key: found[key] for key in wanted}
    assert "secret" not in str(found)


def test_unknown_profile() -> None:
    """A misspelt profile is refused with the known ones."""
    with pytest.raises(UsageError, match="default, strict, extended"):
        JUnitXMLReporter(profile="ant")  # type: ignore[arg-type]


def test_save(tmp_path: Path) -> None:
    """The file is UTF-8 with a declaration, and is what `to_xml` gives."""
    report = EvalReport.create("s", [result("é")])
    path = JUnitXMLReporter().generate(report, tmp_path)
    assert str(tmp_path / "junit.xml") == path
    content = Path(path).read_bytes()
    assert content.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites')
    assert JUnitXMLReporter().to_xml(report) == content.decode()
