"""Does the answer contain the keywords?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentflow_eval._values import as_name
from agentflow_eval.config import ContainsKeywordsConfig
from agentflow_eval.criteria._base import (
    NO_RESPONSE,
    NoResponseError,
    NothingToJudgeError,
    SlotCriterion,
    View,
    notes,
)
from agentflow_eval.criteria._text import folded, stands_alone, tokens, words_around
from agentflow_eval.result import EMPTY_LIST, CriterionResult, TurnResult, shape

_TEXT_SHOWN = 500
_details = shape("keywords", "found", "missing")
_MARKS = re.compile(r"[^\w\s]")
"""What words are cut at: a keyword such as C++ needs its marks too."""


class ContainsKeywordsCriterion(SlotCriterion[ContainsKeywordsConfig]):
    """Share of the keywords found, without regard to case; a forbidden keyword makes the score 0.

    Keywords of the config and of the case are looked for in the last answer, and forbidden ones in every answer; a
    turn's own in that turn's answer.
    """

    slot = "contains_keywords"
    config_class = ContainsKeywordsConfig

    def score(self, view: View, config: ContainsKeywordsConfig) -> CriterionResult:
        """The share of keywords found."""
        wanted, forbidden = _wanted(view, config), _forbidden(view, config)
        if not wanted and not forbidden:
            raise NothingToJudgeError("neither config nor case states a keyword")
        view.check_answers()
        if not any(turn.answered for turn, _ in view.answers):
            raise NoResponseError(NO_RESPONSE)
        keywords = [keyword for keyword, _ in wanted]
        found = [search for search in wanted if _hit(search, config.match)]
        missing = (
            EMPTY_LIST if len(found) == len(wanted) else [word for word, text in wanted if (word, text) not in found]
        )
        details = _details(keywords, [keyword for keyword, _ in found] if missing else keywords, missing)
        details = notes(details, _remarks(view, config, found))
        if present := _present(view, config, forbidden):
            details["forbidden_found"] = list(dict.fromkeys(word for words in present.values() for word in words))
            places = [f"forbidden keyword in the answer{where}: {_quoted(words)}" for where, words in present.items()]
            return CriterionResult.failed(self.name, 0.0, config.threshold, details, "; ".join(places))
        if not missing:
            return self.scored(1.0, config, details)
        details["actual_response"] = wanted[-1][1][:_TEXT_SHOWN]
        return self.scored(len(found) / len(wanted), config, details, f"not in the answer: {_quoted(missing)}")


Search = tuple[str, str]
"""A keyword and the text it is looked for in."""


def _hit(search: Search, match: str) -> bool:
    keyword, text = search
    words = tokens(keyword) if match == "word" else []
    if not words:
        return folded(keyword) in folded(text)
    if _MARKS.search(keyword) and folded(keyword) not in folded(text):
        return False
    among, size = tokens(text), len(words)
    return any(among[start : start + size] == words for start in range(len(among) - size + 1))


def _wanted(view: View, config: ContainsKeywordsConfig) -> list[Search]:
    """What is looked for, each once per text: a turn's own in its answer, the common ones in the last answer."""
    own = [(turn, word) for turn, expectation in view.answers for word in expectation.expected_keywords]
    common = [*(config.keywords or ()), *(view.case.expected_keywords if view.case else ())]
    searches = [(word, _text(view, turn, config)) for turn, word in own]
    if common:
        last = _text(view, view.answers[-1][0], config) if view.answers else ""
        searches += [(word, last) for word in common]
    return list(dict.fromkeys((as_name(word), text) for word, text in searches))


def _forbidden(view: View, config: ContainsKeywordsConfig) -> list[tuple[TurnResult, list[str]]]:
    """What may not occur, turn by turn; empty when nothing is forbidden."""
    common = [*config.forbidden, *view.forbidden_keywords]
    by_turn = [(turn, [*common, *expectation.forbidden_keywords]) for turn, expectation in view.answers]
    return [(turn, list(dict.fromkeys(map(as_name, words)))) for turn, words in by_turn if words]


def _present(
    view: View, config: ContainsKeywordsConfig, forbidden: Sequence[tuple[TurnResult, list[str]]]
) -> dict[str, list[str]]:
    """The forbidden keywords that occur, by where they do."""
    present: dict[str, list[str]] = {}
    for turn, words in forbidden:
        text = _text(view, turn, config)
        where = f" of turn {turn.turn_index + 1}" if len(view.answers) > 1 else ""
        if said := [word for word in words if _hit((word, text), config.match)]:
            present[where] = said
    return present


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


def _remarks(view: View, config: ContainsKeywordsConfig, found: Sequence[Search]) -> list[str]:
    lines = []
    if config.match == "substring":
        for keyword, text in found:
            around = None if stands_alone(text, keyword) else words_around(text, keyword)
            if around:
                lines.append(f'"{keyword}" matched inside "{around}"')
    more = len(view.execution.messages) > 2 * len(view.answers)
    if (
        more
        and config.scan == "final_message"
        and any(len(_assistant_texts(view, turn)) > 1 for turn, _ in view.answers)
    ):
        lines.append("final message only: earlier messages of the turn were not searched (scan: all_messages would)")
    return lines


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)
