"""Does the answer contain the keywords?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentflow_eval.config import ContainsKeywordsConfig
from agentflow_eval.criteria._base import NO_RESPONSE, NothingToJudge, SlotCriterion, View, notes
from agentflow_eval.criteria._text import folded, stands_alone, tokens, words_around
from agentflow_eval.result import CriterionResult, TurnResult

_TEXT_SHOWN = 500


class ContainsKeywordsCriterion(SlotCriterion[ContainsKeywordsConfig]):
    """Share of the keywords found, without regard to case; a forbidden keyword makes the score 0.

    Keywords of the config and of the case are looked for in the last answer, a turn's own in that turn's answer.
    """

    slot = "contains_keywords"
    config_class = ContainsKeywordsConfig

    def score(self, view: View, config: ContainsKeywordsConfig) -> CriterionResult:
        """The share of keywords found."""
        wanted, forbidden = _searches(view, config)
        if not wanted and not forbidden:
            raise NothingToJudge("neither config nor case states a keyword")
        keywords = list(dict.fromkeys(search.keyword for search in wanted))
        if not any(turn.answered for turn, _ in view.answers):
            details = {"keywords": keywords, "found": [], "missing": keywords}
            return self.scored(0.0, config, details, NO_RESPONSE)
        found = [search for search in wanted if search.hit(config.match)]
        missing = [search.keyword for search in wanted if search not in found]
        present = [search.keyword for search in forbidden if search.hit(config.match)]
        details: dict[str, Any] = {
            "keywords": keywords,
            "found": [search.keyword for search in found],
            "missing": missing,
        }
        details = notes(details, _remarks(view, config, found))
        if present:
            details["forbidden_found"] = present
            return self.scored(0.0, config, details, f"forbidden keyword in the answer: {_quoted(present)}")
        reason = f"not in the answer: {_quoted(missing)}" if missing else None
        if missing:
            details["actual_response"] = wanted[-1].text[:_TEXT_SHOWN]
        return self.scored(len(found) / len(wanted) if wanted else 1.0, config, details, reason)


@dataclass(frozen=True, slots=True)
class _Search:
    """One keyword and the text it is looked for in."""

    keyword: str
    text: str

    def hit(self, match: str) -> bool:
        words = tokens(self.keyword) if match == "word" else []
        if not words:
            return folded(self.keyword) in folded(self.text)
        text, size = tokens(self.text), len(words)
        return any(text[start : start + size] == words for start in range(len(text) - size + 1))


def _searches(view: View, config: ContainsKeywordsConfig) -> tuple[list[_Search], list[_Search]]:
    """What is looked for and what is forbidden, each once per text."""
    wanted: dict[_Search, None] = {}
    forbidden: dict[_Search, None] = {}
    for turn, expectation in view.answers:
        text = _text(view, turn, config)
        wanted |= dict.fromkeys(_Search(word, text) for word in expectation.expected_keywords)
        forbidden |= dict.fromkeys(_Search(word, text) for word in expectation.forbidden_keywords)
    last = _text(view, view.answers[-1][0], config) if view.answers else ""
    case = view.case
    wanted |= dict.fromkeys(
        _Search(word, last) for word in [*(config.keywords or ()), *(case.expected_keywords if case else ())]
    )
    forbidden |= dict.fromkeys(
        _Search(word, last) for word in [*config.forbidden, *(case.forbidden_keywords if case else ())]
    )
    return list(wanted), list(forbidden)


def _text(view: View, turn: TurnResult, config: ContainsKeywordsConfig) -> str:
    if config.scan == "final_message":
        return turn.agent_response
    texts = _assistant_texts(view, turn)
    return "\n".join([*texts, turn.agent_response] if turn.agent_response not in texts else texts)


def _assistant_texts(view: View, turn: TurnResult) -> list[str]:
    """What the agent said in the turn, tool requests and the final answer included."""
    texts: list[str] = []
    current = -1
    for message in view.execution.messages:
        if message.get("role") == "user":
            current += 1
        elif message.get("role") == "assistant" and current == turn.turn_index and message.get("content"):
            texts.append(str(message["content"]))
    return texts


def _remarks(view: View, config: ContainsKeywordsConfig, found: Sequence[_Search]) -> list[str]:
    lines = []
    if config.match == "substring":
        for search in found:
            around = None if stands_alone(search.text, search.keyword) else words_around(search.text, search.keyword)
            if around:
                lines.append(f'"{search.keyword}" matched inside "{around}"')
    if config.scan == "final_message" and any(len(_assistant_texts(view, turn)) > 1 for turn, _ in view.answers):
        lines.append("final message only: earlier messages of the turn were not searched (scan: all_messages would)")
    return lines


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)
