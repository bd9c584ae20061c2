"""Compares eval sets with the agent and the config that they are meant for, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentflow_eval._values import shown
from agentflow_eval.adapters import AgentShape
from agentflow_eval.config import CriteriaConfig, EvalConfig, MatchType
from agentflow_eval.dataset import EvalCase, EvalSet, Invocation, ToolCall
from agentflow_eval.errors import did_you_mean

READERS = {
    "expected_tool_trajectory": ("tool_name_match", "trajectory"),
    "expected_node_order": ("node_order",),
    "expected_final_response": ("rouge_match", "exact_match", "response_match", "llm_judge", "factual_accuracy"),
    "expected_keywords": ("contains_keywords",),
    "forbidden_keywords": ("contains_keywords",),
}
"""Expectation -> the criteria that read it."""

_NEEDS = {
    "tool_name_match": ("expected_tool_trajectory",),
    "trajectory": ("expected_tool_trajectory",),
    "node_order": ("expected_node_order",),
    "rouge_match": ("expected_final_response",),
    "exact_match": ("expected_final_response",),
    "response_match": ("expected_final_response",),
    "contains_keywords": ("expected_keywords", "forbidden_keywords"),
}
"""Criterion -> the expectations of which a case has to state one."""

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that does not fit.

    Attributes:
        place: Where, such as ``eval_cases[0].conversation[1].expected_node_order[2]``; empty for the set as a whole.
        message: What is wrong and what would be right.
        level: ``error``: the expectation cannot be met. ``warning``: it may be meant so.
    """

    place: str
    message: str
    level: Literal["error", "warning"] = "error"


def lint(eval_set: EvalSet, shape: AgentShape, config: EvalConfig | None = None) -> list[Remark]:
    """What in a set can be known to be wrong for an agent of this shape; what is not known is not held against it.

    Cases that name another ``target`` are not compared with the agent. Without a config the criteria are not looked at.
    """
    remarks: list[Remark] = []
    for index, case in enumerate(eval_set):
        for number, turn in enumerate(case.conversation if case.target is None else ()):
            place = f"eval_cases[{index}].conversation[{number}]"
            remarks += _tools(turn, shape.tools, place)
            remarks += _nodes(turn, shape.nodes, place)
            if config is not None:
                remarks += _order(turn, shape, _criteria(case, turn, config), place)
    if config is not None:
        messages = [*without_data(eval_set, config), *unread([eval_set], config)]
        remarks += [Remark("", message, "warning") for message in messages]
    return remarks


def _criteria(case: EvalCase, turn: Invocation, config: EvalConfig) -> CriteriaConfig:
    return config.criteria.overridden_by(case.criteria).overridden_by(turn.criteria)


# Tools


def _tools(turn: Invocation, tools: Mapping[str, Any] | None, place: str) -> Iterator[Remark]:
    if tools is None:
        return
    for index, call in enumerate(turn.expected_tool_trajectory):
        where = f"{place}.expected_tool_trajectory[{index}]"
        if call.name in tools:
            yield from _arguments(call, tools[call.name] or {}, f"{where}.args")
        else:
            yield Remark(f"{where}.name", f"the agent has no tool {_unknown(call.name, list(tools))}")


def _arguments(call: ToolCall, schema: Mapping[str, Any], place: str) -> Iterator[Remark]:
    """Arguments that the tool does not have, or whose values it does not take; what matchers accept is not known."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or schema.get("additionalProperties") not in (None, False):
        return
    for name, value in call.args.items():
        if name not in properties:
            yield Remark(f"{place}.{name}", f"{call.name} has no argument {_unknown(name, list(properties))}")
            continue
        literal = value["$literal"] if isinstance(value, dict) and value.keys() == {"$literal"} else value
        if isinstance(literal, dict) and any(key.startswith("$") for key in literal) and literal is value:
            continue
        wanted = _wanted(properties[name], literal)
        if wanted is not None:
            yield Remark(f"{place}.{name}", f"{call.name} takes {wanted}, got {shown(literal)}")


def _wanted(schema: Any, value: Any) -> str | None:
    """What an argument has to be instead of ``value``; None when the value is right, or nobody knows."""
    allowed = _allowed(schema)
    if allowed is not None and not _fits(value, allowed):
        return " or ".join(allowed)
    choices = schema.get("enum") if isinstance(schema, Mapping) else None
    return f"one of {shown(choices)}" if isinstance(choices, list) and value not in choices else None


def _allowed(schema: Any) -> list[str] | None:
    """The JSON types that a schema lets through; None when it does not simply say."""
    if not isinstance(schema, Mapping):
        return None
    if isinstance(schema.get("anyOf"), list):
        parts = [_allowed(part) for part in schema["anyOf"]]
        return None if None in parts else [name for part in parts for name in part or ()]
    kind = schema.get("type")
    names: list[Any] = kind if isinstance(kind, list) else [kind]
    return names if all(name in _TYPES for name in names) else None


def _fits(value: Any, allowed: Sequence[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in allowed
    if isinstance(value, float) and value.is_integer() and "integer" in allowed:
        return True
    return any(isinstance(value, _TYPES[name]) for name in allowed)


# Nodes


def _nodes(turn: Invocation, nodes: Sequence[str] | None, place: str) -> Iterator[Remark]:
    if nodes is None:
        return
    for index, name in enumerate(turn.expected_node_order):
        outer = name.rpartition("/")[0]
        known = not outer or any(node.startswith(f"{outer}/") for node in nodes)
        if known and name not in nodes:
            where = f"{place}.expected_node_order[{index}]"
            yield Remark(where, f"the graph has no node {_unknown(name, list(nodes))}")


def _order(turn: Invocation, shape: AgentShape, criteria: CriteriaConfig, place: str) -> Iterator[Remark]:
    """Visits that no edge leads to: from the start or from any visit before, since branches run side by side."""
    settings = criteria.enabled().get("node_order")
    match = getattr(settings, "match_type", None)
    if shape.edges is None or match not in (MatchType.EXACT, MatchType.IN_ORDER):
        return
    top = [name for name in turn.expected_node_order if "/" not in name and name in (shape.nodes or ())]
    leads = {name: {b for a, b in shape.edges if a == name} for name in [*top, "__start__"]}
    if match is MatchType.IN_ORDER:
        leads = {name: _reached(name, shape.edges) for name in leads}
    before = ["__start__"]
    for name in top:
        open_ended = any(not leads[visit] for visit in before)
        if not open_ended and not any(name in leads[visit] for visit in before):
            earlier = " > ".join(before[1:]) or "none"
            message = f"no edge leads to {name} from the start or from a visit before it ({earlier})"
            yield Remark(f"{place}.expected_node_order", message, "warning")
            return
        before.append(name)


def _reached(start: str, edges: Iterable[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        new = {b for a, b in edges if a == name} - found
        found |= new
        waiting += new
    return found


# Criteria


def without_data(eval_set: EvalSet, config: EvalConfig) -> Iterator[str]:
    """The criteria of the config that no case has data for."""
    for slot, settings in config.criteria.enabled().items():
        needs = _NEEDS.get(slot)
        own = getattr(settings, "keywords", None) or getattr(settings, "forbidden", None)
        if needs is None or own or not len(eval_set):
            continue
        if not any(_states(case, name) for case in eval_set for name in needs):
            yield f"{slot} is switched on and no case states {' or '.join(needs)}"


def _states(case: EvalCase, name: str) -> bool:
    if getattr(case, name, None):
        return True
    return any(name in turn.model_fields_set or getattr(turn, name) for turn in case.conversation)


def unread(sets: Iterable[EvalSet], config: EvalConfig) -> list[str]:
    """The expectations that are stated and that no criterion reads, so that a pass is not taken for more than it is."""
    found: dict[str, list[str]] = {}
    for case in (case for eval_set in sets for case in eval_set):
        on = set(config.criteria.overridden_by(case.criteria).enabled())
        for turn in case.conversation:
            slots = on | set(turn.criteria.enabled() if turn.criteria else ())
            for name, readers in READERS.items():
                stated = getattr(turn, name) or getattr(case, name, None)
                if stated and not slots.intersection(readers):
                    found.setdefault(name, []).append(case.eval_id)
    lines = []
    for name, ids in found.items():
        cases = list(dict.fromkeys(ids))
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        lines.append(f"{name} of case {cases[0]!r}{more} is read by no criterion ({' or '.join(READERS[name])} would)")
    return lines


def _unknown(name: str, known: list[str]) -> str:
    near = did_you_mean(name, known)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{name!r}{hint} (there: {', '.join(known)})"
