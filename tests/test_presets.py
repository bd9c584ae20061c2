"""Configs for common purposes."""

from __future__ import annotations

from typing import Any

import pytest

from agentflow_eval import CriterionConfig, EvalConfig, EvalPresets, MatchType, UsageError

Settings = dict[str, dict[str, Any]]


def judged(threshold: float, samples: int = 3, model: str = "gemini-2.5-flash") -> dict[str, Any]:
    """The settings of a judged criterion."""
    return {"threshold": threshold, "num_samples": samples, "judge_model": model}


def tools(threshold: float, match_type: str, check_args: bool) -> Settings:
    """The settings of the two tool criteria."""
    trajectory = {"threshold": threshold, "match_type": match_type, "check_args": check_args}
    return {"tool_name_match": {"threshold": threshold}, "trajectory": trajectory}


QUALITY: Settings = {"response_match": judged(0.7), "llm_judge": judged(0.7, 1)}
BROAD: Settings = {**tools(1.0, "IN_ORDER", True), "rouge_match": {"threshold": 0.5}}
SAFE: Settings = {"hallucination": judged(0.8), "safety": judged(0.8)}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(EvalPresets.response_quality(), QUALITY, id="response_quality"),
        pytest.param(
            EvalPresets.response_quality(0.6, False, "m"), {"response_match": judged(0.6, 3, "m")}, id="no judge"
        ),
        pytest.param(EvalPresets.tool_usage(), tools(1.0, "EXACT", True), id="tool_usage"),
        pytest.param(EvalPresets.tool_usage(0.9, False, False), tools(0.9, "IN_ORDER", False), id="tool_usage loose"),
        pytest.param(
            EvalPresets.conversation_flow(),
            {
                "trajectory": {"threshold": 0.8, "match_type": "IN_ORDER", "check_args": False},
                "response_match": judged(0.8),
            },
            id="conversation_flow",
        ),
        pytest.param(EvalPresets.quick_check(), {"rouge_match": {"threshold": 0.5}}, id="quick_check"),
        pytest.param(
            EvalPresets.comprehensive(),
            {**BROAD, "llm_judge": judged(0.8), "factual_accuracy": judged(0.8), **SAFE},
            id="comprehensive",
        ),
        pytest.param(EvalPresets.comprehensive(use_llm_judge=False), BROAD, id="comprehensive without judge"),
        pytest.param(EvalPresets.safety_check(), SAFE, id="safety_check"),
        pytest.param(EvalPresets.custom(), {}, id="custom without anything"),
        pytest.param(
            EvalPresets.custom(0.5, 0.9), {**tools(0.9, "IN_ORDER", True), "response_match": judged(0.5)}, id="custom"
        ),
        pytest.param(
            EvalPresets.custom(
                llm_judge_threshold=0.0,
                hallucination_threshold=0.2,
                safety_threshold=0.3,
                factual_accuracy_threshold=0.4,
                judge_model="m",
            ),
            {
                "llm_judge": judged(0.0, 3, "m"),
                "factual_accuracy": judged(0.4, 3, "m"),
                "hallucination": judged(0.2, 3, "m"),
                "safety": judged(0.3, 3, "m"),
            },
            id="custom judges",
        ),
    ],
)
def test_presets(config: EvalConfig, expected: Settings) -> None:
    """Each preset switches on what the documentation says, with its settings."""
    enabled = {slot: settings.model_dump(mode="json") for slot, settings in config.criteria.enabled().items()}
    assert list(expected) == list(enabled)
    assert expected == {slot: {name: enabled[slot][name] for name in wanted} for slot, wanted in expected.items()}


def test_presets_are_independent() -> None:
    """Changing one config changes no other."""
    EvalPresets.quick_check().disable_criterion("rouge_match")
    assert EvalPresets.quick_check().criteria.enabled()


def test_combine() -> None:
    """The last config wins in each slot and gives the other settings; the configs given stay as they are."""
    first = EvalPresets.tool_usage()
    first.timeout = 5.0
    last = EvalConfig(timeout=9.0, parallel=True)
    last.enable_criterion("trajectory", CriterionConfig.trajectory(0.3, MatchType.ANY_ORDER))
    combined = EvalPresets.combine(first, EvalPresets.quick_check(), last)
    assert list(combined.criteria.enabled()) == ["tool_name_match", "trajectory", "rouge_match"]
    assert combined.criteria.trajectory == last.criteria.trajectory
    assert (combined.timeout, combined.parallel) == (9.0, True)
    combined.disable_criterion("trajectory")
    assert "trajectory" in last.criteria.enabled()
    assert "trajectory" in first.criteria.enabled()


def test_combine_keeps_what_is_switched_off() -> None:
    """A later config can switch a criterion off."""
    off = EvalPresets.quick_check()
    off.disable_criterion("rouge_match")
    assert EvalPresets.combine(EvalPresets.quick_check(), off).criteria.enabled() == {}


def test_combine_nothing() -> None:
    """There has to be something to combine."""
    with pytest.raises(UsageError, match="at least one config"):
        EvalPresets.combine()
