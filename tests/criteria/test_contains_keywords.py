"""Keywords in answers."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow_eval import ContainsKeywordsConfig, ContainsKeywordsCriterion, CriterionResult
from agentflow_eval._values import visible
from tests.criteria.runs import case, expecting, run


def judge(keywords: list[str] | None, answer: Any, **config: Any) -> CriterionResult:
    """The judgement of this answer."""
    criterion = ContainsKeywordsCriterion(ContainsKeywordsConfig(**{"threshold": 1.0, "keywords": keywords, **config}))
    return criterion.evaluate_sync(run(answer=answer), case(expecting()))


@pytest.mark.parametrize(
    ("keywords", "answer", "score"),
    [
        (["fee", "10 EUR"], "The FEE is 10 eur.", 1.0),
        (["oak", "oak", "elm"], "oak", 0.5),
        (["STRASSE"], "Die Straße ist frei.", 1.0),
        (["İNEBOLU"], "Bugün İnebolu güzel", 1.0),
        (["\x1b[1m", "\x00"], "\x1b[1mbold\x00", 1.0),
        (["Zu\u0308rich"], "in Zürich", 1.0),
        (["red"], {"answer": "red", "n": 2}, 1.0),
        (["art"], "The party has started.", 1.0),
        (["refund"], "no", 0.0),
        (["refund"], None, 0.0),
        (["香蕉"], "香蕉是黄色的", 1.0),
        (["New York"], "in New\u00a0York", 1.0),
        (["New York"], "in New\nYork", 1.0),
        (["new \n york"], "in New \u2009 York", 1.0),
        (["password"], "pass\u200bw\u00ado\ufeffr\u2060d", 1.0),
        (["pass\u00adword"], "PASS\u200cWORD", 1.0),
        ([" AI"], "they said so", 0.0),
        (["❤"], "with ❤\ufe0f", 1.0),
        (["می\u200cخواهم"], "می\u200cخواهم", 1.0),
        (["می\u200cخواهم"], "میخواهم", 0.0),
    ],
)
def test_scores(keywords: list[str], answer: Any, score: float) -> None:
    """The share of keywords that occur, without regard to case and form."""
    result = judge(keywords, answer)
    assert result.score == score
    assert (result.reason is None) == (score == 1.0)


@pytest.mark.parametrize(
    ("keyword", "answer", "found"),
    [
        ("art", "The party has started.", False),
        ("art", "Modern art!", True),
        ("new york", "in New  York city", True),
        ("york new", "in New York", False),
        ("5", "between -5 and 15", False),
        ("5", "it is 5.", True),
        ("C++", "C is old, C++ is newer", True),
        ("C++", "C is old", False),
        ("e-mail", "send an E-Mail", True),
        ("e-mail", "send an e mail", False),
        ("Mail, phone", "mail,\n phone", True),
        ("!", "Stop!", True),
        ("香蕉", "香蕉是黄色的", True),
        ("Käse", "KÄSEBROT", False),
        ("password", "a pass\u200bword", True),
        ("C++", "C+\u00ad+ it is", True),
    ],
)
def test_whole_words(keyword: str, answer: str, found: bool) -> None:
    """``match: word`` finds whole words, in a row, with the marks that the keyword has."""
    assert found == judge([keyword], answer, match="word").passed


def test_details() -> None:
    """What was found, what was not, and where a hit may be a chance one."""
    result = judge(["art", "refund"], "The party has started.")
    assert result.details == {
        "keywords": ["art", "refund"],
        "found": ["art"],
        "missing": ["refund"],
        "notes": ['"art" matched inside "party"'],
        "actual_response": "The party has started.",
        "reason": 'not in the answer: "refund"',
    }


@pytest.mark.parametrize(
    ("answer", "score", "reason"),
    [
        ("All fine", 1.0, None),
        ("Sorry, all fine", 0.0, 'forbidden keyword in the answer: "sorry"'),
        (None, 0.0, "the agent gave no response"),
    ],
)
def test_forbidden(answer: str | None, score: float, reason: str | None) -> None:
    """A forbidden keyword outweighs everything; no answer is not the absence of one."""
    for keywords in (None, ["fine"]):
        result = judge(keywords, answer, forbidden=["sorry"])
        assert (score, reason) == (result.score, result.reason)


def test_keywords_of_config_case_and_turns() -> None:
    """Common keywords are looked for in the last answer, a turn's own in that turn's answer."""
    actual = run({"answer": "Hello Ada"}, {"answer": "It is sunny, bye"})
    expected = case(
        expecting(expected_keywords=["ada"], forbidden_keywords=["bye"]),
        expecting(expected_keywords=["sunny"], forbidden_keywords=["hello"]),
        expected_keywords=["bye"],
        forbidden_keywords=["rain"],
    )
    criterion = ContainsKeywordsCriterion(ContainsKeywordsConfig(threshold=1.0, keywords=["sunny", "it"]))
    result = criterion.evaluate_sync(actual, expected)
    assert result.passed
    assert result.details["keywords"] == ["ada", "sunny", "it", "bye"]
    expected.forbidden_keywords.append("it is")
    assert criterion.evaluate_sync(actual, expected).details["forbidden_found"] == ["it is"]


def test_forbidden_in_any_answer() -> None:
    """What is forbidden in a case is forbidden in each of its answers, whatever the scope; the reason says where."""
    actual = run({"answer": "Buy gold"}, {"answer": "Buy sil\u00adver"}, {"answer": "Bye"})
    expected = case(expecting(), expecting(forbidden_keywords=["gold"]), expecting(), forbidden_keywords=["silver"])
    for scope, first in (("case", "forbidden keyword in the answer of turn 1: "), ("turn", "turn 1: forbidden")):
        config = ContainsKeywordsConfig.model_validate({"forbidden": ["buy", "gold"], "scope": scope})
        result = ContainsKeywordsCriterion(config).evaluate_sync(actual, expected)
        assert (result.outcome, result.score) == ("failed", 0.0 if scope == "case" else 1 / 3)
        assert (result.reason or "").startswith(first)
        assert '"buy", "gold"' in (result.reason or "")
        assert '"buy", "silver"' in (result.reason or "")
    result = ContainsKeywordsCriterion(ContainsKeywordsConfig()).evaluate_sync(actual, expected)
    assert result.details["forbidden_found"] == ["silver"]
    assert result.reason == 'forbidden keyword in the answer of turn 2: "silver"'


def test_nothing_stated() -> None:
    """Without a keyword there is nothing to judge."""
    result = judge(None, "x")
    assert (result.outcome, result.reason) == ("skipped", "neither config nor case states a keyword")


@pytest.mark.parametrize(("scan", "score"), [("final_message", 0.5), ("all_messages", 1.0)])
def test_scan(scan: Literal["final_message", "all_messages"], score: float) -> None:
    """Only the final message counts, with a note, unless all are scanned."""
    actual = run({"answer": "All done.", "said": ["Here is the plan."]}, {"answer": "Bye"})
    actual.turns.pop()
    criterion = ContainsKeywordsCriterion(ContainsKeywordsConfig(keywords=["plan", "done"], scan=scan))
    result = criterion.evaluate_sync(actual, case(expecting()))
    assert result.score == score
    assert (scan == "final_message") == any("final message only" in note for note in result.details.get("notes", []))


def test_scan_of_a_turn() -> None:
    """What was said in another turn does not count."""
    actual = run({"answer": "Bye", "said": ["secret"]}, {"answer": "Done"})
    criterion = ContainsKeywordsCriterion(ContainsKeywordsConfig(keywords=["secret"], scan="all_messages"))
    assert criterion.evaluate_sync(actual, case(expecting(), expecting())).score == 0.0


def _can_be_seen(text: str) -> bool:
    return bool(visible(text).strip())


@given(st.lists(st.text(min_size=1, max_size=4).filter(_can_be_seen), min_size=1, max_size=4), st.text(max_size=12))
def test_scores_are_shares(keywords: list[str], answer: str) -> None:
    """Any keywords and answer give a share, and an answer made of the keywords has them all."""
    result = judge(keywords, answer)
    assert result.score is not None
    assert 0.0 <= result.score <= 1.0
    assert judge(keywords, "x " + " ".join(keywords)).score == 1.0
