"""Does a judge find the answer grounded in what the tools returned?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentflow_eval._values import as_text
from agentflow_eval.criteria._base import View
from agentflow_eval.criteria._judged import (
    JudgedCriterion,
    all_said,
    conversation,
    last_answer,
    tool_lines,
    verdict_schema,
)
from agentflow_eval.judge import Answer, Scale


class HallucinationCriterion(JudgedCriterion):
    """The share of grounded claims; the context is what the tools returned and ``metadata["context"]``."""

    slot = "hallucination"

    def asks(self, view: View) -> Sequence[tuple[str, float, dict[str, Any]]]:
        """One question about the last answer."""
        given = view.case.metadata.get("context") if view.case else None
        context = "\n".join(part for part in (tool_lines(view), as_text(given) or "") if part)
        values = {**last_answer(view), "turns": conversation(view)[:-1], "context": context}
        values["turns"].append({"user": values.pop("question"), "agent": "(the answer below)"})
        return [("answer", 1.0, values)]

    def schema(self, scale: Scale) -> dict[str, Any]:
        """A score with the list of ungrounded claims."""
        return verdict_schema(scale, hallucinations=["an ungrounded claim"])

    def findings(self, answers: Mapping[str, Answer]) -> dict[str, Any]:
        """The ungrounded claims."""
        grounded = self.meets(answers["answer"])
        return {"is_grounded": grounded, "hallucinations": all_said(answers, "hallucinations")}
