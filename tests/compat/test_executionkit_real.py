from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

if sys.version_info < (3, 13):
    pytest.skip("executionkit fails below Python 3.13 in every call of a Kit", allow_module_level=True)

from executionkit import Kit
from executionkit import evals as original

from agentflow_eval.compat import executionkit as ours
from tests.adapters.test_executionkit import RuleProvider, text
from tests.compat.executionkit_suite import cases, seen

pytestmark = pytest.mark.executionkit


def test_side_by_side() -> None:
    """The same suite says the same in every field."""
    for share in (None, 0.3, original.LIVE_EVAL_MIN_ACCURACY):
        both = [asyncio.run(evals.run_eval_suite(cases(evals), min_accuracy=share)) for evals in (original, ours)]
        assert seen(both[0]) == seen(both[1])
    assert original.LIVE_EVAL_MIN_ACCURACY == ours.LIVE_EVAL_MIN_ACCURACY


async def asked() -> str:
    """What a kit answers."""
    return str((await kit().turn("Paris")).value)


def test_kits_side_by_side() -> None:
    """The same suite on real kits."""
    both = [asyncio.run(evals.run_eval_suite(cases(evals, asked))) for evals in (original, ours)]
    assert seen(both[0]) == seen(both[1])
    assert both[1].passed_count == 11


def script(evals: Any) -> Any:
    """A conversation of seven turns, of which some fail."""

    def recalls(result: Any) -> str | None:
        return None if "Ann" in result.value else f"forgot the name: {result.value}"

    return evals.ConversationScript(
        name="memory",
        turns=(
            evals.Turn("I am Ann.", lambda result: True),
            evals.Turn("Who am I?", recalls),
            evals.Turn("Break.", lambda result: None),
            evals.Turn("And now?", recalls),
            evals.Turn("Right?", lambda result: result.value == "no"),
            evals.Turn("Sure?", lambda result: result.nothing),
            evals.Turn("", lambda result: result.value.endswith(" / ")),
        ),
    )


def kit() -> Kit:
    """A kit whose model repeats what the user said."""

    def rule(messages: Any) -> Any:
        said = [message["content"] for message in messages if message["role"] == "user"]
        if said[-1] == "Break.":
            raise ConnectionError("gone")
        return text(" / ".join(said))

    return Kit(RuleProvider(rule))


def test_scripts_side_by_side() -> None:
    """The same script with the same kit says the same, and leaves the same conversation behind."""
    kits = kit(), kit()
    both = [
        asyncio.run(evals.run_conversation_script(script(evals), one))
        for evals, one in zip((original, ours), kits, strict=True)
    ]
    assert seen(both[0]) == seen(both[1])
    assert kits[0].messages == kits[1].messages


def test_real_agents_and_evidence() -> None:
    """A suite over kits; a script's report also has what the adapter records."""

    async def run() -> Any:
        return await kit().turn("hello")

    report = asyncio.run(ours.run_eval_suite([ours.EvalCase("kit", run, lambda result: result.value == "hello")]))
    assert report.passed
    played = asyncio.run(ours.run_conversation_script(script(ours), kit())).to_report().results[0]
    assert played.agent_token_usage.input_tokens > 0
    assert played.turn_results[1].agent_response == "I am Ann. / Who am I?"


def test_live_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is executionkit's own."""
    monkeypatch.setenv("EXECUTIONKIT_LIVE_EVAL", "1")
    monkeypatch.setenv("EXECUTIONKIT_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("EXECUTIONKIT_MODEL", "m")
    assert type(ours.live_provider_from_env()) is type(original.live_provider_from_env())
