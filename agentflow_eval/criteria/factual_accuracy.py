"""Does a judge find the facts of the answer right?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentflow_eval._values import as_text
from agentflow_eval.criteria._base import View
from agentflow_eval.criteria._judged import JudgedCriterion, all_said, last_answer, verdict_schema
from agentflow_eval.judge import Answer, Scale


class FactualAccuracyCriterion(JudgedCriterion):
    """The share of right facts, by ``metadata["reference_facts"]`` and the expected answer where they are stated."""

    slot = "factual_accuracy"

    def asks(self, view: View) -> Sequence[tuple[str, float, dict[str, Any]]]:
        """One question about the last answer."""
        facts = view.case.metadata.get("reference_facts") if view.case else None
        lines = "\n".join(as_text(fact) or "" for fact in facts) if isinstance(facts, list) else as_text(facts)
        expected = view.answers[-1][1].expected_text if view.answers else None
        return [("answer", 1.0, {**last_answer(view), "facts": lines or "", "expected": expected or ""})]

    def schema(self, scale: Scale) -> dict[str, Any]:
        """A score with the list of wrong statements."""
        return verdict_schema(scale, errors=["a wrong statement"])

    def findings(self, answers: Mapping[str, Answer]) -> dict[str, Any]:
        """The wrong statements."""
        errors = all_said(answers, "errors")
        return {"is_accurate": self.meets(answers["answer"]), "errors": errors}
