"""A suite as a user of agno.eval writes it; ``evals`` is that module, or ours in its place."""

from __future__ import annotations

import json
from typing import Any

from agno.exceptions import RunCancelledException
from agno.models.message import Message
from agno.models.response import ModelResponse

from tests.adapters.test_agno import RuleModel, agent, once, team, text, used, wants


def named(rule: Any = None, name: str = "one") -> Any:
    """An agent with an id."""
    made = agent(rule or once(), name=name)
    made.id = f"id-{name}"
    return made


def judge(**verdict: Any) -> RuleModel:
    """A judge that always says the same."""
    reply = ModelResponse(role="assistant", content=json.dumps(verdict), response_usage=used())
    return RuleModel(rule=lambda messages: reply)


def lead(messages: list[Message]) -> ModelResponse:
    """Lets the member add, then is done."""
    done = messages[-1].role == "tool"
    return text("done") if done else wants(("delegate_task_to_member", {"member_id": "member", "task": "add"}))


def crew() -> Any:
    """A team whose member adds."""
    made = team(agent(once(("add", {"a": 1, "b": 2})), name="member"), rule=lead)
    made.id = "id-team"
    return made


def cancels(messages: list[Message]) -> ModelResponse:
    """Cancels the run."""
    raise RunCancelledException("stop it")


def breaks(messages: list[Message]) -> ModelResponse:
    """Raises."""
    raise ZeroDivisionError("division by zero")


def bad() -> None:
    """Raises."""
    raise OSError("no room")


YES, NO = judge(passed=True, reason="good"), judge(passed=False, reason="not nice")
ADD = ("add", {"a": 1, "b": 2})


def cases(evals: Any, log: list[str]) -> list[Any]:
    """Twenty-six cases: every kind of check, of run and of fault."""

    def make(name: str, rule: Any = None, **options: Any) -> Any:
        component = {} if "team" in options else {"agent": named(rule)}
        return evals.Case(name=name, input="hi", **component, **options)

    async def prepare() -> str:
        log.append("prepared")
        return "context"

    async def clean(context: Any, result: Any) -> None:
        log.append(f"cleaned {context} {result.name} {result.passed}")

    return [
        make("judged", criteria="be nice", judge_model=YES),
        make("judged badly", criteria="be nice", judge_model=NO, tags=("slow", "nice")),
        make("score", criteria="be nice", judge_mode="numeric", judge_model=judge(score=8, reason="fine")),
        make("score at the bar", criteria="be nice", judge_mode="numeric", judge_model=judge(score=7, reason="ok")),
        make("score below", criteria="be nice", judge_mode="numeric", judge_model=judge(score=6, reason="meh")),
        make(
            "own bar",
            criteria="be nice",
            judge_mode=evals.JudgeMode.NUMERIC,
            judge_threshold=3,
            judge_model=judge(score=3, reason="x"),
        ),
        make("text for false", criteria="be nice", judge_model=judge(passed="false", reason="no")),
        make("tool", once(ADD), expected_tool_calls=("add",)),
        make("tool twice", once(ADD, ADD), expected_tool_calls=("add",)),
        make("two tools", once(ADD, ("slowly", {"number": "1"})), expected_tool_calls=("slowly", "add")),
        make("missing tool", expected_tool_calls=("add",)),
        make("one of two", once(ADD), expected_tool_calls=("add", "slowly")),
        make("more tools", once(ADD, ("slowly", {"number": "1"})), expected_tool_calls=("add",)),
        make(
            "no more tools",
            once(ADD, ("slowly", {"number": "1"})),
            expected_tool_calls=("add",),
            allow_additional_tool_calls=False,
        ),
        make("exactly", once(ADD), expected_tool_calls=("add",), allow_additional_tool_calls=False),
        make("failed tool", once(("fail", {"why": "x"})), expected_tool_calls=("fail",)),
        make("both", once(ADD), criteria="be nice", judge_model=YES, expected_tool_calls=("add",)),
        make("both, one fails", once(ADD), criteria="be nice", judge_model=NO, expected_tool_calls=("add",)),
        make("team", team=crew(), expected_tool_calls=("add",)),
        make("team, no more", team=crew(), expected_tool_calls=("add",), allow_additional_tool_calls=False),
        make("team, judged", team=crew(), criteria="be nice", judge_model=YES),
        make("broken", breaks, expected_tool_calls=("add",)),
        make("broken setup", criteria="be nice", judge_model=YES, setup=bad, teardown=clean),
        make("prepared", criteria="be nice", judge_model=YES, setup=prepare, teardown=clean),
        make("broken teardown", criteria="be nice", judge_model=YES, teardown=lambda context, result: bad()),
        make("cancelled", cancels, expected_tool_calls=("add",), setup=prepare, teardown=clean),
        make("never run", criteria="be nice", judge_model=YES, tags=("slow",)),
    ]


def seen(suite: Any) -> dict[str, Any]:
    """What the payload says, without what differs from run to run and the words after an error's prefix."""
    payload = suite.to_dict()
    for case in payload["cases"]:
        case["error"] = [part.split(":")[0] for part in (case["error"] or "").split("; ")]
        assert case["skipped"] == (not case.pop("session_id")) or case["error"] == ["setup"]
        assert case.pop("duration_seconds") >= 0
        for name in [name for name in case if name.startswith("score_")]:
            del case[name]  # a check that came after the document
    return dict(payload)
