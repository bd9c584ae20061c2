"""Words and letters of any script."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow_eval.criteria._text import fold, folded, stands_alone, tokens, words_around


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat, the CAT!", ["the", "cat", "the", "cat"]),
        ("don't re-use", ["don't", "re", "use"]),
        ("don’t", ["don't"]),
        ("it costs -3.50 or +7", ["it", "costs", "-3.50", "or", "+7"]),
        ("from 3-5", ["from", "3", "5"]),
        ("1,000.5 kg", ["1,000.5", "kg"]),
        ("x-1 a1 1a _b", ["x", "1", "a1", "1a", "_b"]),
        ("\u22125 °C", ["-5", "°", "c"]),
        ("naïve café", ["naïve", "café"]),
        ("cafe\u0301", ["café"]),
        ("Straße", ["strasse"]),
        ("кот спит", ["кот", "спит"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("العَرَبِيَّة", ["العَرَبِيَّة"]),
        ("香蕉是 yellow", ["香", "蕉", "是", "yellow"]),
        ("カタカナ ひらがな", list("カタカナひらがな")),
        ("한국어 말", ["한국어", "말"]),
        ("ขอบคุณ", ["ข", "อ", "บ", "คุ", "ณ"]),
        ("ｆｕｌｌ ２", ["full", "2"]),
        ("ﬁne", ["fine"]),
        ("👍🏽 ok", ["👍🏽", "ok"]),
        ("٣٫٥ ٧", ["٣", "٥", "٧"]),
        ("co\u00adoperate \u200bnow", ["cooperate", "now"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("क्\u200dष", ["क्\u200dष"]),
        ("pass\u200d\u200cword", ["password"]),
        ("!?… —", []),
        ("", []),
    ],
)
def test_tokens(text: str, words: list[str]) -> None:
    """Words as readers of each script see them."""
    assert [unicodedata.normalize("NFKC", word) for word in words] == tokens(text)


@given(st.text(st.characters(codec="ascii"), max_size=30))
def test_ascii_has_its_own_way_to_the_same_words(text: str) -> None:
    """The fast way and the general way agree."""
    general = tokens(f"{text} é")
    assert [*tokens(text), "é"] == general


@given(st.text(max_size=30))
def test_tokens_of_anything(text: str) -> None:
    """Tokens are not empty, hold no space, and do not depend on the form or case of the text."""
    found = tokens(text)
    assert all(word and not re.search(r"\s", word) for word in found)
    assert found == tokens(unicodedata.normalize("NFC", text)) == tokens(unicodedata.normalize("NFD", text))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("STRASSE", "straße"),
        ("İSTANBUL", "i\u0307stanbul"),
        ("É", "e\u0301"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("Ｋ", "ｋ"),
        ("plain", "PLAIN"),
        ("two words", "Two\u00a0\n words"),
        (" a ", "\ta\u3000"),
        ("\n", " "),
        ("👩\u200d🚀", "👩\u200d🚀\ufeff"),
    ],
)
def test_fold(first: str, second: str) -> None:
    """Texts that differ in case or form only are the same."""
    assert fold(first) == fold(second) == folded(first)


@given(st.text(max_size=20))
def test_fold_is_idempotent(text: str) -> None:
    """Folded once is folded."""
    assert fold(text) == fold(fold(text)) == fold(unicodedata.normalize("NFD", text))


@pytest.mark.parametrize(
    ("text", "keyword", "alone", "around"),
    [
        ("The party started.", "art", False, "party"),
        ("Modern art.", "art", True, None),
        ("Start with art", "art", True, "Start"),
        ("C++ rocks", "C++", True, None),
        ("a-b", "a", True, None),
        ("none", "zero", False, None),
        ("Weltstraße", "STRASSE", False, "Weltstraße"),
    ],
)
def test_words_around(text: str, keyword: str, alone: bool, around: str | None) -> None:
    """A keyword inside a longer word is told from one that stands alone."""
    assert alone == stands_alone(text, keyword)
    assert around == words_around(text, keyword)
