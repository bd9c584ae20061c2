"""The HTML report in a real browser."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from agentflow_eval.dataset import TrajectoryStep
from agentflow_eval.reporters._island import LONGEST
from agentflow_eval.reporters.html import HTMLReporter
from agentflow_eval.result import CriterionResult, ErrorKind, EvalReport, NodeDetail, Outcome
from tests.reporters.samples import (
    HOSTILE_TEXTS,
    broken_agents,
    case,
    flaky_case,
    hostile_case,
    large_report,
    plain_passes,
    refund_conversation,
    report_of,
    rouge,
    sample_report,
    skipped_case,
    tool,
    turn,
    weather_passed,
    wrong_arguments,
)

Opener = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, shared by the module; without one these tests fail."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path, "these tests need chromium, chromium-browser or google-chrome on the PATH"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens a report from disk; at the end nothing may have been requested, logged or raised."""
    problems: list[str] = []
    contexts = []

    def opener(report: EvalReport, anchor: str = "", reporter: HTMLReporter | None = None, **options: Any) -> Page:
        path = (reporter or HTMLReporter()).save(report, tmp_path / "report.html")
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: _note_foreign(request.url, path.as_uri(), problems))
        page.goto(path.as_uri() + (f"#{anchor}" if anchor else ""))
        return page

    yield opener
    for context in contexts:
        context.close()
    assert problems == []


def _note_foreign(url: str, own: str, problems: list[str]) -> None:
    if url.split("#")[0] != own and not url.startswith("data:"):
        problems.append(f"request: {url}")


def opened(page: Page, eval_id: str) -> Locator:
    """The case with this id, opened by a click, with its folded parts opened too."""
    item = page.locator(".case").filter(has=page.locator(f'.id:text-is("{eval_id}")'))
    item.locator("button.row").click()
    expect(item.locator("> .body")).to_be_visible()
    item.evaluate(_UNFOLD)
    return item


_UNFOLD = """async (item) => {
  for (let closed; (closed = item.querySelectorAll("details:not([open])")).length;) {
    closed.forEach((details) => { details.open = true; });
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  item.querySelectorAll(".clip").forEach((button) => button.click());
}"""


def ids(page: Page) -> list[str]:
    """Ids of the listed cases."""
    return page.locator(".case .id").all_text_contents()


# Text


@pytest.mark.parametrize("key", HOSTILE_TEXTS)
def test_text_is_shown_exactly_and_does_nothing(open_report: Opener, key: str) -> None:
    """HT01, HT03, HT09: whatever an agent says stands on the page as it was said."""
    text = HOSTILE_TEXTS[key]
    page = open_report(report_of([hostile_case(key)], eval_set_name=text))
    item = opened(page, f"hostile_{key}")
    assert text == page.locator("h1").text_content()
    assert text == item.locator(".turn .text").first.text_content()
    assert text == item.locator(".pair").nth(1).locator(".text").text_content()
    assert f"not {text}" == item.locator(".pair").first.locator(".text").text_content()
    assert f'"{text}"' in item.locator(".args pre").all_text_contents()
    assert text in item.locator(".pairs .text").all_text_contents()
    assert page.locator("img, main script:not([type]), iframe").count() == 0
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_a_lone_surrogate_and_control_characters_are_made_visible(open_report: Opener) -> None:
    """What UTF-8 cannot hold is shown as an escape, wherever it comes from."""
    only = turn(0, "half \ud83d", "nul \x00 end", tool_calls=[tool("t", {"a": "\udc00"})])
    page = open_report(report_of([case("c", Outcome.PASSED, [rouge(1.0)], [only], name="n \ud800")]))
    item = opened(page, "c")
    expect(item).to_contain_text(r"half \ud83d")
    expect(item).to_contain_text(r"nul \x00 end")
    expect(item).to_contain_text(r'"\udc00"')
    expect(item).to_contain_text(r"n \ud800")


def test_large_numbers_keep_every_digit(open_report: Opener) -> None:
    """Numbers that JavaScript would round are shown as they are."""
    page = open_report(report_of([refund_conversation()]))
    expect(opened(page, "refund_conversation").locator(".args").first).to_contain_text("90071992547409931")


def test_foreign_values_do_not_break_the_page(open_report: Opener) -> None:
    """Values that JSON does not know are shown as text."""
    odd = {"set": {1, 2}, "bytes": b"ab", "big": 2**70, 3: "three", "nan": float("nan"), "deep": _nested(300)}
    page = open_report(report_of([case("c", Outcome.PASSED, [rouge(1.0)], [], metadata={"odd": odd})]))
    item = opened(page, "c")
    for expected in ("set: [1, 2]", 'bytes: "YWI="', "big: 1180591620717411303424", '3: "three"', "nested too deeply"):
        expect(item.locator(".pairs").last).to_contain_text(expected)


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = [value]
    return value


def test_very_long_results_are_cut_visibly_and_answers_are_not(open_report: Opener) -> None:
    """A tool's endless result says how much is missing; an answer is kept whole."""
    answer = "word " * LONGEST
    only = turn(0, "q", answer, tool_calls=[tool("t", {"a": ["y" * (LONGEST + 7)]}, "x" * (LONGEST + 1234))])
    trial = case("c", Outcome.PASSED, [rouge(1.0)], [only])
    page = open_report(report_of([case("c", Outcome.PASSED, [rouge(1.0)], trials=[trial, trial])]))
    item = opened(page, "c").locator(".trial").first
    expect(item).to_contain_text("[1,234 more characters were cut from this report]")
    expect(item).to_contain_text("[7 more characters were cut from this report]")
    assert answer in item.locator(".turn .text").all_text_contents()


# Numbers


@pytest.mark.parametrize("score", [float("inf"), float("nan"), None])
def test_a_score_that_is_no_number_is_not_available(open_report: Opener, score: float | None) -> None:
    """HT05: the page is whole and says n/a."""
    result = CriterionResult.skipped("custom", 0.5, "nothing to judge")
    report = report_of([case("c", Outcome.ERROR, [result], error="e", error_kind=ErrorKind.NOTHING_CHECKED)])
    report.results[0].criterion_results[0].score = score
    report.summary.criterion_stats["custom"].avg_score = score
    page = open_report(report)
    expect(page.locator(".criteria tbody")).to_contain_text("n/a")
    expect(opened(page, "c").locator(".score .number")).to_contain_text("n/a")


def test_rates_are_rounded_down() -> None:
    """Only all of the cases are 100%."""
    cases = [case(str(i), Outcome.PASSED, [rouge(1.0)]) for i in range(3999)]
    html = HTMLReporter().render(report_of([*cases, case("x", Outcome.FAILED, [rouge(0.1)])]))
    assert "<strong>99.9%</strong>" in html


def test_the_head_says_what_was_run(open_report: Opener) -> None:
    """Name, verdict in words, numbers, file, hashes and versions."""
    page = open_report(sample_report())
    expect(page).to_have_title("Not passed: Travel assistant")
    expect(page.locator("h1")).to_have_text("Travel assistant")
    expect(page.locator(".verdict")).to_contain_text("6 of 25 cases passed (24%), 100% needed.")
    cards = [re.sub(r"\s+", " ", text).strip() for text in page.locator(".cards > div").all_inner_texts()]
    expected = ["Cases 26", "Passed 6", "Failed 14", "Errors 5", "Skipped 1", "Wall clock 48.2 s", "Tokens 1,558"]
    assert expected == cards
    for text in ("2026-01-01 00:00:00 UTC", "evalsets/travel.json", "5f2b8c1d9e3a4f60", "langgraph"):
        expect(page.locator("footer")).to_contain_text(text)


@pytest.mark.parametrize(
    ("results", "more", "headline", "sentence"),
    [
        (plain_passes(), {}, "Passed", "5 of 5 cases passed (100%), 100% needed."),
        ([*plain_passes(), wrong_arguments()], {"min_pass_rate": 0.8}, "Passed", "5 of 6 cases passed (83.3%), 80%"),
        (plain_passes(), {"mock": True}, "Mock run", "there is no verdict"),
        (plain_passes(), {"interrupted": True}, "Interrupted", "does not pass"),
        ([skipped_case()], {}, "Not passed", "Every case was skipped"),
        ([], {}, "Not passed", "No case was run"),
    ],
)
def test_the_verdict_is_given_in_words(
    open_report: Opener, results: list[Any], more: dict[str, Any], headline: str, sentence: str
) -> None:
    """The gate, and why a good rate may not be enough."""
    page = open_report(report_of(results, **more))
    expect(page.locator(".verdict h2")).to_have_text(headline)
    expect(page.locator(".verdict")).to_contain_text(sentence)
    expect(page.locator(".banner")).to_have_count(1 if more.get("mock") or more.get("interrupted") else 0)


def test_an_empty_report_is_a_page(open_report: Opener) -> None:
    """Without a case there is a sentence instead of a list."""
    page = open_report(report_of([], finished_at="", wall_clock_seconds=0.0))
    expect(page.locator(".empty")).to_have_text("This report has no cases.")
    expect(page.locator("#browser")).to_be_hidden()
    expect(page.locator("footer time")).to_have_text("2026-01-01 00:00:00 UTC")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "250 ms"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (3661, "1 h 01 min")]
)
def test_times_are_readable(seconds: float, text: str) -> None:
    """The unit follows the size."""
    assert f"<dd>{text}</dd>" in HTMLReporter().render(report_of([], wall_clock_seconds=seconds))


def test_same_causes_stand_together(open_report: Opener) -> None:
    """Three cases that broke alike are one line, and a click lists them."""
    page = open_report(report_of([*plain_passes(), *broken_agents()[:3], wrong_arguments(), refund_conversation()]))
    broken = page.locator(".cause").first
    expect(broken).to_contain_text("all 3 cases")
    expect(broken).to_contain_text("ModuleNotFoundError: No module named 'acme'")
    broken.click()
    assert ids(page) == ["booking_1", "booking_2", "booking_3"]
    expect(broken).to_have_attribute("aria-pressed", "true")
    broken.click()
    expect(page.locator(".case")).to_have_count(10)
    expect(page.locator(".cause").nth(1)).to_contain_text("2 cases")
    expect(page.locator(".cause").nth(1)).to_contain_text("for example")


# The list


def test_cases_that_need_a_look_come_first_and_are_closed(open_report: Opener) -> None:
    """HT06: failed, broken, passed, skipped, each in file order; nothing is open."""
    page = open_report(report_of([skipped_case(), weather_passed(), *broken_agents()[:2], wrong_arguments()]))
    expect(page.locator(".case")).to_have_count(5)
    assert ids(page) == ["forecast_oslo", "booking_1", "booking_2", "weather_paris", "payment_live"]
    expect(page.locator(".body")).to_have_count(0)


def test_filters_and_search(open_report: Opener) -> None:
    """Filters say how many they show; the search looks at id, name, tags and reasons."""
    page = open_report(sample_report())
    counts = page.locator(".filters button").all_inner_texts()
    assert counts == ["All 26", "Failed 14", "Errors 5", "Passed 6", "Skipped 1"]
    page.get_by_role("button", name="Errors").click()
    expect(page.locator("#status")).to_have_text("5 of 26 cases")
    for query, found in {"BOOKING_2": 1, "book 3": 1, "30 s": 1, "acme": 3, "nothing like it": 0}.items():
        page.get_by_role("searchbox").fill(query)
        expect(page.locator("#status")).to_have_text(f"{found} of 26 cases")
        expect(page.locator(".case")).to_have_count(found)
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator("#status")).to_have_text("26 cases")
    page.get_by_role("searchbox").fill("billing")
    expect(page.locator(".case")).to_have_count(2)


def test_four_thousand_cases_appear_at_once(open_report: Opener) -> None:
    """HT06: a large report is there in two seconds, in pages, and a search is quick."""
    report = large_report(4000)
    started = time.perf_counter()
    HTMLReporter().render(report)
    rendering = time.perf_counter() - started
    started = time.perf_counter()
    page = open_report(report)
    expect(page.locator(".case").first).to_be_visible()
    assert time.perf_counter() - started - rendering < 4.0
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 2000
    expect(page.locator(".case")).to_have_count(100)
    expect(page.locator("#page")).to_have_text("Page 1 of 40")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#page")).to_have_text("Page 2 of 40")
    page.get_by_role("button", name="Previous").click()
    page.get_by_role("searchbox").fill("case_03999")
    expect(page.locator(".case")).to_have_count(1)
    assert opened(page, "case_03999").locator(".turn").count() >= 1


def test_a_link_opens_its_case(open_report: Opener) -> None:
    """The anchor names the case, on whichever page it is; opening one sets the anchor."""
    page = open_report(large_report(1000), anchor="case_00999")
    expect(page.locator(".body")).to_be_visible()
    expect(page.locator("button.row[aria-expanded=true] .id")).to_have_text("case_00999")
    expect(page.locator("button.row[aria-expanded=true]")).to_be_focused()
    page.get_by_role("searchbox").fill("case_0000")
    expect(page.locator("#status")).to_have_text("10 of 1,000 cases")
    page.locator("button.row").first.click()
    assert page.url.endswith("#" + ids(page)[0])
    page.evaluate("location.hash = '#case_00500'")
    expect(page.locator("button.row[aria-expanded=true] .id").last).to_have_text("case_00500")
    page.evaluate("location.hash = '#%E0%A4%A'")
    page.evaluate("location.hash = '#nobody'")


def test_a_link_may_name_any_id(open_report: Opener) -> None:
    """An id with characters that URLs escape is found too."""
    odd = case("a b/<c>#?%20ü", Outcome.PASSED, [rouge(1.0)])
    page = open_report(report_of([odd]), anchor="a%20b%2F%3Cc%3E%23%3F%2520%C3%BC")
    expect(page.locator(".body")).to_be_visible()


# An opened case


def test_expected_stands_beside_actual(open_report: Opener) -> None:
    """Answers, arguments and nodes are compared, and differences are marked."""
    item = opened(open_report(report_of([wrong_arguments()])), "forecast_oslo")
    expect(item.locator(".pair").nth(0)).to_contain_text("Yes, light rain on Tuesday.")
    expect(item.locator(".pair").nth(1)).to_contain_text("Light rain is likely")
    expect(item.locator(".call .mark-text")).to_have_text("arguments differ")
    marked = [re.sub(r"\s+", " ", text) for text in item.locator(".args .differs").all_inner_texts()]
    assert [text.strip() for text in marked] == ['days 3 "3"', 'lang not given "en"']


def test_calls_are_lined_up(open_report: Opener) -> None:
    """A missing call, one with a pattern, one that is not expected, and a failure are told apart."""
    item = opened(open_report(report_of([refund_conversation()])), "refund_conversation")
    marks = item.locator(".turn").nth(1).locator(".call .mark-text").all_text_contents()
    assert marks == ["missing", "more arguments", "not expected"]
    expect(item.locator(".outcome-line.broken")).to_contain_text("SMTPError: mailbox is full")
    expect(item.locator(".turn").nth(2)).to_contain_text("None expected, none called.")
    assert item.locator(".path .missing, .path .extra").all_text_contents() == ["REFUND", "TOOL"]


@pytest.mark.parametrize(
    ("wanted", "got", "marks"),
    [
        ([tool("a"), tool("b")], [tool("b", {"x": 1}), tool("a")], ["as expected", "called elsewhere"]),
        ([tool("a", {"x": {"y": 1, "z": 2}})], [tool("a", {"x": {"z": 2, "y": 1}})], ["as expected"]),
        ([tool("a", {"x": 1})], [tool("a", {"x": True})], ["arguments differ"]),
        ([tool("a", {"x": 1})], [tool("a", {"x": 2}), tool("a", {"x": 1})], ["not expected", "as expected"]),
        ([], [tool("a")], ["not expected"]),
        ([tool("a")] * 600, [tool("a")] * 500, ["as expected"] * 500 + ["missing"] * 100),
    ],
)
def test_marks_of_calls(open_report: Opener, wanted: list[Any], got: list[Any], marks: list[str]) -> None:
    """Calls are paired by name and arguments, in order where that is possible."""
    only = turn(0, "q", "a", tool_calls=got, expected_tool_calls=wanted)
    item = opened(open_report(report_of([case("c", Outcome.PASSED, [rouge(1.0)], [only])])), "c")
    assert marks == item.locator(".call .mark-text").all_text_contents()


def test_everything_recorded_can_be_read(open_report: Opener) -> None:
    """Scores with threshold, details, steps, model calls, messages, metadata, tokens and tags."""
    item = opened(open_report(report_of([weather_passed()])), "weather_paris")
    assert item.locator(".number").all_text_contents() == ["1.00, needs 1.00", "0.82, needs 0.60", "0.95, needs 0.70"]
    expect(item.locator(".score").nth(2)).to_contain_text("The answer names the city")
    expect(item.locator(".score").nth(2)).to_contain_text("876 (812 in, 64 out)")
    assert item.locator(".timeline li > span:nth-child(2)").all_text_contents() == ["node", "node", "tool", "node"]
    for text in ("1,558 (1,452 in, 106 out)", "682 (640 in, 42 out)", "travel team", "18, clear", "temperature: 18"):
        expect(item).to_contain_text(text)
    expect(item.locator(".turn")).to_contain_text("It is 18 degrees and clear in Paris.")


def test_what_broke_is_told(open_report: Opener) -> None:
    """The kind in words, the error, the traceback, earlier attempts, and turns that were not played."""
    page = open_report(report_of(broken_agents()))
    item = opened(page, "booking_1")
    expect(item.locator(".reasons")).to_contain_text("The agent raised an exception")
    expect(item.locator(".reasons")).to_contain_text("No module named 'acme'")
    expect(item).to_contain_text('File "agents/travel.py", line 41, in run')
    slow = opened(page, "flight_search")
    expect(slow.locator(".reasons")).to_contain_text("The agent did not finish in time")
    expect(slow).to_contain_text("ConnectionResetError: peer closed the connection")
    expect(slow).to_contain_text("Beside the verdicthook: on_run_event raised ValueError: no such tool")
    expect(slow.locator(".turn").nth(1)).to_contain_text("not run")


def test_runs_of_a_case(open_report: Opener) -> None:
    """Each run can be opened; the first that did not pass is open."""
    page = open_report(report_of([flaky_case()]))
    expect(page.locator(".row")).to_contain_text("2/3 runs")
    page.locator(".row").click()
    expect(page.locator(".trial")).to_have_count(3)
    expect(page.locator(".trial[open]")).to_contain_text("Run 2")
    expect(page.locator(".trial[open]")).to_contain_text("ROUGE-1 F1 0.12 is below 0.60")


def test_evidence_without_turns_is_shown(open_report: Opener) -> None:
    """Results of older reports have no turns."""
    old = case("old", Outcome.PASSED, [rouge(1.0)], actual_response="the answer", node_visits=["N"])
    old.actual_tool_calls = [tool("find", {"x": 1}, [])]
    item = opened(open_report(report_of([old])), "old")
    for text in ("the answer", "find", "x", "N"):
        expect(item.locator(".turn")).to_contain_text(text)


def test_steps_tell_arguments_that_nothing_else_tells(open_report: Opener) -> None:
    """A run that recorded steps and no calls, and only the details of nodes."""
    step = TrajectoryStep.tool("find", {"place": "harbour"}, retries=2)
    only = case("c", Outcome.PASSED, [rouge(1.0)], actual_trajectory=[step])
    only.node_details = [NodeDetail(node_name="PLANNER", response_text="look it up")]
    item = opened(open_report(report_of([only])), "c")
    expect(item.locator(".timeline")).to_contain_text('{place: "harbour", retries: 2}')
    expect(item).to_contain_text("PLANNER")
    expect(item).to_contain_text("look it up")


@pytest.mark.parametrize(
    ("flag", "hidden"),
    [
        ("include_details", ["precision", "The answer names the city"]),
        ("include_trajectory", ["Trajectory (", "+0.00 s"]),
        ("include_node_responses", ["Model calls", "18, clear"]),
        ("include_actual_response", ["is 18 degrees and clear in Paris"]),
        ("include_tool_call_details", ["celsius", "sky:", "c1"]),
    ],
)
def test_what_is_not_wanted_is_left_out(open_report: Opener, flag: str, hidden: list[str]) -> None:
    """Each setting takes its part away and leaves the rest."""
    full = opened(open_report(report_of([weather_passed()])), "weather_paris")
    flags = {flag: False}
    if flag == "include_actual_response":
        flags["include_node_responses"] = False
    part = opened(open_report(report_of([weather_passed()]), reporter=HTMLReporter(**flags)), "weather_paris")
    everything, rest = full.text_content() or "", part.text_content() or ""
    for text in hidden:
        assert text in everything
        assert text not in rest
    assert "get_weather" in rest


# The page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(open_report: Opener, scheme: str) -> None:
    """Nothing is wider than 390 pixels, with every case opened."""
    page = open_report(sample_report(), viewport={"width": 390, "height": 844}, color_scheme=scheme)
    expect(page.locator(".case")).to_have_count(26)
    for button in page.locator(".row").all():
        button.click()
    expect(page.locator(".case > .body")).to_have_count(26)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_theme_can_be_changed(open_report: Opener) -> None:
    """The button says what it does, and does it."""
    page = open_report(sample_report(), color_scheme="light")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark theme").click()
    assert before != page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light theme").click()
    assert before == page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_it_can_be_used_by_keyboard(open_report: Opener) -> None:
    """A case opens and closes with the keyboard, and tells whether it is open."""
    page = open_report(report_of([weather_passed()]))
    row = page.locator(".row")
    row.focus()
    page.keyboard.press("Enter")
    expect(row).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".body")).to_be_visible()
    page.keyboard.press("Space")
    expect(row).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".body")).to_be_hidden()


def test_text_has_enough_contrast(open_report: Opener) -> None:
    """Every text of an opened case has the contrast of WCAG AA, in both themes."""
    for scheme in ("light", "dark"):
        page = open_report(report_of([refund_conversation(), *broken_agents()]), color_scheme=scheme)
        opened(page, "refund_conversation")
        opened(page, "booking_1")
        assert page.evaluate(_CONTRAST) == []


_CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgb = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const behind = (element) => { for (let e = element; e; e = e.parentElement) {
    const color = rgb(getComputedStyle(e).backgroundColor); if (color[3] === 255) return color; } };
  return [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility() && !element.disabled
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())).map((element) => {
      const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
      return [element.className, element.textContent.slice(0, 30), (a + 0.05) / (b + 0.05)];
    }).filter(([, , ratio]) => ratio < 4.5);
}"""


def test_without_script_there_is_a_summary(open_report: Opener) -> None:
    """Numbers, causes and the cases that did not pass can be read without JavaScript."""
    page = open_report(sample_report(), java_script_enabled=False)
    expect(page.locator(".verdict")).to_contain_text("6 of 25 cases passed")
    expect(page.locator("noscript li")).to_have_count(20)
    expect(page.locator("noscript li").filter(has_text="booking_1 - Book 1 nights")).to_be_visible()
    expect(page.locator("#browser")).to_be_hidden()


def test_only_its_own_style_and_script_may_run(tmp_path: Path) -> None:
    """HT07: one file; the policy allows nothing but what carries the right hash."""
    path = HTMLReporter.quick_save(sample_report(), tmp_path / "deep" / "report.html")
    html = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", html)[2:] == []
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", html)
    assert "unsafe" not in html.split("</head>")[0].split("<style>")[0]


def test_the_same_report_gives_the_same_page(tmp_path: Path) -> None:
    """Rendering twice gives equal text; `generate` writes report.html."""
    reporter = HTMLReporter()
    report = sample_report()
    assert reporter.render(report) == reporter.to_html(report) == reporter.generate(report)
    assert str(tmp_path / "report.html") == reporter.generate(report, tmp_path)
