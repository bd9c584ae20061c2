"""Cuts text into words, and folds it for comparison."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from agentflow_eval._values import visible

if TYPE_CHECKING:
    import regex

_ASCII_TOKEN = re.compile(r"(?<![a-z0-9_])[+-]?\d+(?:[.,]\d+)*(?![a-z0-9_])|[a-z0-9_]+(?:'[a-z0-9_]+)*")

_AS_TYPED = str.maketrans("\u2019\u2212", "'-")
"""The apostrophe and the minus of typesetters, as keyboards have them."""


@cache
def _token() -> regex.Pattern[str]:
    """One word: a number with sign and decimal point, a character of a script without spaces, a word, a symbol.

    Script names are those of the Unicode Character Database.
    """
    import regex

    by_character = r"\p{Han}\p{Hiragana}\p{Katakana}"
    by_grapheme = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    letter = rf"[[\p{{L}}\p{{M}}\p{{N}}_\u200c\u200d]--[{by_character}{by_grapheme}]]"
    return regex.compile(
        rf"(?<![\p{{L}}\p{{N}}_])[+-]?\p{{Nd}}+(?:[.,]\p{{Nd}}+)*(?![\p{{L}}\p{{N}}_])"
        rf"|(?:(?=[{by_character}{by_grapheme}])\X)"
        rf"|{letter}+(?:'{letter}+)*"
        r"|(?:(?=\p{So})\X)",
        regex.VERSION1,
    )


def tokens(text: str) -> list[str]:
    """The words of ``text`` after NFKC and case folding, without characters that cannot be seen (see `visible`).

    Words keep their combining marks and accents; numbers keep sign and decimal point; Han, Kana, Thai, Lao, Khmer and
    Myanmar are cut by grapheme; symbols such as emoji are words of their own; punctuation is dropped.
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    folded = visible(unicodedata.normalize("NFKC", text).casefold()).translate(_AS_TYPED)
    found: list[str] = _token().findall(unicodedata.normalize("NFKC", folded))
    return found


def fold(text: str) -> str:
    """``text`` for comparison without regard to case, line breaks and characters that cannot be seen (see `visible`).

    Canonical caseless matching of the Unicode Standard, 3.13, with each run of white space as one space.
    """
    if text.isascii():
        return _one_spaced(text.lower())
    folded = visible(unicodedata.normalize("NFD", text).casefold())
    return _one_spaced(unicodedata.normalize("NFC", folded))


def _one_spaced(text: str) -> str:
    words = " ".join(text.split())
    return f"{' ' if text[:1].isspace() else ''}{words}{' ' if words and text[-1:].isspace() else ''}"


folded = lru_cache(maxsize=64)(fold)
"""`fold` that remembers the latest texts: one answer is searched for many keywords."""


def stands_alone(text: str, keyword: str) -> bool:
    """Whether some place where ``keyword`` occurs in ``text`` has no letter or digit right before or after it."""
    haystack, wanted = folded(text), folded(keyword)
    start = haystack.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        if not haystack[max(0, start - 1) : start].isalnum() and not haystack[end : end + 1].isalnum():
            return True
        start = haystack.find(wanted, start + 1)
    return False


def words_around(text: str, keyword: str) -> str | None:
    """The first word of ``text`` that contains ``keyword`` and more letters; None when none does."""
    wanted = fold(keyword)
    return next(
        (word for word in re.findall(r"\w+", visible(text)) if wanted in fold(word) and wanted != fold(word)), None
    )
