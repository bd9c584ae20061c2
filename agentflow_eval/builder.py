"""Builds eval sets call by call."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from agentflow_eval.dataset import EvalCase, EvalSet, ToolCall
from agentflow_eval.errors import UsageError


class EvalSetBuilder:
    """Collects cases; every ``add_`` method gives the builder back, so that calls can be chained.

    Args:
        name: Label of the set in reports.
    """

    def __init__(self, name: str = "eval_set") -> None:
        self.name = name
        self.eval_set_id = str(uuid.uuid4())
        self.description = ""
        self.metadata: dict[str, Any] = {}
        self.cases: list[EvalCase] = []

    def add_case(
        self,
        query: str,
        expected: str | None,
        case_id: str | None = None,
        expected_tools: Sequence[str | ToolCall] | None = None,
        expected_node_order: Sequence[str] | None = None,
        name: str = "",
        description: str = "",
    ) -> Self:
        """Adds a case of one turn; tools may be names. Without ``case_id`` it is ``case_1``, ``case_2``...

        Raises:
            UsageError: The id is taken.
        """
        return self._add(
            EvalCase.single_turn(
                self._id(case_id, "case"),
                query,
                expected,
                _calls(expected_tools),
                expected_node_order,
                name,
                description,
            )
        )

    def add_multi_turn(
        self,
        conversation: Sequence[tuple[str, str]],
        case_id: str | None = None,
        expected_tools: Sequence[str | ToolCall] | None = None,
        name: str = "",
        description: str = "",
    ) -> Self:
        """Adds a case of ``(query, expected answer)`` turns.

        Raises:
            UsageError: The id is taken.
        """
        case_id = self._id(case_id, "case")
        return self._add(EvalCase.multi_turn(case_id, conversation, _calls(expected_tools), name, description))

    def add_tool_test(
        self,
        query: str,
        tool_name: str,
        tool_args: Mapping[str, Any] | None = None,
        expected_response: str | None = None,
        case_id: str | None = None,
    ) -> Self:
        """Adds a case that expects one tool call; the expected answer is ``Result from <tool>`` when none is given.

        Raises:
            UsageError: The id is taken.
        """
        expected = f"Result from {tool_name}" if expected_response is None else expected_response
        return self.add_case(query, expected, case_id, [ToolCall(name=tool_name, args=dict(tool_args or {}))])

    def build(self) -> EvalSet:
        """The set of the cases so far."""
        given: dict[str, Any] = {"description": self.description} if self.description else {}
        if self.metadata:
            given["metadata"] = dict(self.metadata)
        return EvalSet(eval_set_id=self.eval_set_id, name=self.name, eval_cases=list(self.cases), **given)

    def save(self, path: Path | str) -> EvalSet:
        """Writes the set as JSON and gives it."""
        eval_set = self.build()
        eval_set.to_file(path)
        return eval_set

    @classmethod
    def from_conversations(
        cls, conversations: Sequence[Mapping[str, str]], name: str = "conversation_tests"
    ) -> EvalSetBuilder:
        """A builder with one case ``conv_1``, ``conv_2``... for each ``{"user": ..., "assistant": ...}``.

        Raises:
            UsageError: A conversation has no ``user``, or a key that is neither of the two.
        """
        builder = cls(name)
        for number, conversation in enumerate(conversations, start=1):
            if "user" not in conversation:
                raise UsageError(f"conversations[{number - 1}]: required key 'user' is missing")
            unknown = sorted(conversation.keys() - {"user", "assistant"})
            if unknown:
                raise UsageError(f"conversations[{number - 1}]: unknown key {unknown[0]!r} (allowed: user, assistant)")
            builder.add_case(conversation["user"], conversation.get("assistant"), f"conv_{number}")
        return builder

    @classmethod
    def from_file(cls, path: Path | str) -> EvalSetBuilder:
        """A builder that goes on with the set in a file.

        Raises:
            LoadError: The file cannot be used.
        """
        eval_set = EvalSet.from_file(path)
        builder = cls(eval_set.name)
        builder.eval_set_id = eval_set.eval_set_id
        builder.description = eval_set.description
        builder.metadata = dict(eval_set.metadata)
        builder.cases = list(eval_set.eval_cases)
        return builder

    @classmethod
    def quick(cls, *pairs: tuple[str, str]) -> EvalSet:
        """A set of one case ``test_1``, ``test_2``... for each ``(query, expected answer)``."""
        builder = cls("quick_test")
        for number, (query, expected) in enumerate(pairs, start=1):
            builder.add_case(query, expected, f"test_{number}")
        return builder.build()

    def _add(self, case: EvalCase) -> Self:
        if any(other.eval_id == case.eval_id for other in self.cases):
            raise UsageError(f"case id {case.eval_id!r} is taken; ids are unique in a set")
        self.cases.append(case)
        return self

    def _id(self, given: str | None, prefix: str) -> str:
        if given is not None:
            return given
        taken = {case.eval_id for case in self.cases}
        number = len(self.cases) + 1
        while f"{prefix}_{number}" in taken:
            number += 1
        return f"{prefix}_{number}"


def _calls(tools: Sequence[str | ToolCall] | None) -> list[ToolCall] | None:
    if tools is None:
        return None
    return [ToolCall(name=tool) if isinstance(tool, str) else tool for tool in tools]
