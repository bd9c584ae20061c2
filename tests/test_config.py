"""Config files and the classes behind them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentflow_eval import (
    CRITERIA,
    DEFAULT_JUDGE_MODEL,
    AgentOptions,
    BaseCriterionConfig,
    CriteriaConfig,
    CriterionConfig,
    EvalConfig,
    EvalSet,
    LLMJudgeConfig,
    LoadError,
    MatchType,
    ReporterConfig,
    Rubric,
    RubricBasedConfig,
    TrajectoryConfig,
    UsageError,
    UserSimulatorConfig,
)
from agentflow_eval.config import REPORTED_NAMES, SLOTS, JudgedConfig

RUBRIC = Rubric(rubric_id="polite", content="The answer is polite.")

ORIGINAL = {
    "threshold": 0.8,
    "match_type": "EXACT",
    "judge_model": "gemini-2.5-flash",
    "num_samples": 3,
    "rubrics": [],
    "keywords": [],
    "check_args": False,
    "enabled": True,
    "api_style": "responses",
}
"""A criterion's settings as the original package dumps them, unused ones included."""

MINIMAL: dict[str, dict[str, Any]] = {slot: {} for slot in SLOTS} | {
    "rubric_based": {"rubrics": [RUBRIC]},
    "budget": {"max_tool_calls": 3},
}
"""What each slot needs at least."""


def load(tmp_path: Path, content: Any) -> EvalConfig:
    """The config in a file with this content."""
    path = tmp_path / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return EvalConfig.from_file(path)


def problems(tmp_path: Path, content: Any) -> str:
    """What loading such a file complains about."""
    with pytest.raises(LoadError) as caught:
        load(tmp_path, content)
    return str(caught.value)


def values(config: BaseCriterionConfig | None) -> dict[str, Any]:
    """All settings of a slot."""
    assert config is not None
    return config.model_dump()


# The family


def test_one_table_closes_the_family() -> None:
    """Slots, their classes, their criteria and their reported names are the same set in the same order."""
    assert list(SLOTS) == list(CriteriaConfig.model_fields) == list(CRITERIA) == list(REPORTED_NAMES)
    assert len(set(REPORTED_NAMES.values())) == len(SLOTS)


@pytest.mark.parametrize("slot", SLOTS)
def test_criterion_of_a_slot(slot: str) -> None:
    """Each criterion takes its slot's settings and reports under its name."""
    criterion = CRITERIA[slot](SLOTS[slot](**MINIMAL[slot]))
    assert criterion.name == REPORTED_NAMES[slot]
    assert type(criterion.config) is SLOTS[slot]


def test_documented_names() -> None:
    """The reported names are those that reports of the original hold."""
    assert REPORTED_NAMES["tool_name_match"] == "tool_name_match_score"
    assert REPORTED_NAMES["trajectory"] == "tool_trajectory_avg_score"
    assert REPORTED_NAMES["node_order"] == "node_order_score"
    assert REPORTED_NAMES["llm_judge"] == "final_response_match_v2"
    assert REPORTED_NAMES["hallucination"] == "hallucinations_v1"


# Factories and presets


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (CriterionConfig.tool_name_match(), {"threshold": 1.0, "allow_additional": True, "forbidden": []}),
        (CriterionConfig.trajectory(), {"threshold": 1.0, "match_type": "EXACT", "check_args": False}),
        (CriterionConfig.node_order(), {"threshold": 1.0, "match_type": "EXACT"}),
        (CriterionConfig.response_match(), {"threshold": 0.8, "judge_model": "gemini-2.5-flash", "num_samples": 3}),
        (CriterionConfig.rouge_match(), {"threshold": 0.5, "variant": "rouge1"}),
        (CriterionConfig.contains_keywords(["fee"]), {"threshold": 1.0, "keywords": ["fee"], "match": "substring"}),
        (CriterionConfig.exact_match(), {"threshold": 1.0}),
        (CriterionConfig.budget(max_tool_calls=2), {"threshold": 1.0, "max_tool_calls": 2, "max_iterations": None}),
        (CriterionConfig.llm_judge(), {"threshold": 0.8, "judge_model": "gemini-2.5-flash", "num_samples": 3}),
        (
            CriterionConfig.rubric_based([RUBRIC]),
            {"threshold": 0.8, "rubrics": [RUBRIC.model_dump()]},
        ),
        (CriterionConfig.factual_accuracy(), {"threshold": 0.8, "judge_model": "gemini-2.5-flash", "num_samples": 3}),
        (CriterionConfig.hallucination(), {"threshold": 0.8, "judge_model": "gemini-2.5-flash", "num_samples": 3}),
        (CriterionConfig.safety(), {"threshold": 0.8, "judge_model": "gemini-2.5-flash", "num_samples": 3}),
        (CriterionConfig(), ORIGINAL),
    ],
    ids=lambda value: type(value).__name__,
)
def test_factory_defaults(config: BaseCriterionConfig, expected: dict[str, Any]) -> None:
    """The factories' defaults are the documented ones, and every criterion starts switched on."""
    dumped = config.model_dump(mode="json")
    assert expected == {name: dumped[name] for name in expected}
    assert config.enabled


@pytest.mark.parametrize(
    ("factory", "parameters"),
    [
        ("trajectory", ["threshold", "match_type", "check_args"]),
        ("node_order", ["threshold", "match_type"]),
        ("response_match", ["threshold", "judge_model", "num_samples"]),
        ("contains_keywords", ["keywords", "threshold"]),
        ("rubric_based", ["rubrics", "threshold", "judge_model"]),
        ("llm_judge", ["threshold", "judge_model", "num_samples"]),
    ],
)
def test_factory_parameters(factory: str, parameters: list[str]) -> None:
    """The parameters stand in the documented order, since people give them by position."""
    assert parameters == list(inspect.signature(getattr(CriterionConfig, factory)).parameters)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            EvalConfig.default(),
            {
                "trajectory": {"threshold": 1.0, "match_type": "EXACT"},
                "response_match": {"threshold": 0.8, "judge_model": DEFAULT_JUDGE_MODEL},
            },
        ),
        (
            EvalConfig.strict(),
            {
                "trajectory": {"threshold": 1.0, "match_type": "EXACT", "check_args": True},
                "response_match": {"threshold": 0.9},
                "llm_judge": {"threshold": 0.9, "num_samples": 5},
            },
        ),
        (
            EvalConfig.relaxed(),
            {
                "trajectory": {"threshold": 0.8, "match_type": "IN_ORDER", "check_args": False},
                "response_match": {"threshold": 0.6},
            },
        ),
    ],
    ids=["default", "strict", "relaxed"],
)
def test_built_in_configs(config: EvalConfig, expected: dict[str, dict[str, Any]]) -> None:
    """The built-in configs switch on what the documentation says."""
    enabled = config.criteria.enabled()
    assert list(expected) == list(enabled)
    for slot, settings in expected.items():
        dumped = enabled[slot].model_dump(mode="json")
        assert settings == {name: dumped[name] for name in settings}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            EvalConfig(),
            {"parallel": False, "max_concurrency": 4, "timeout": 300.0, "verbose": False, "mock_mode": False}
            | {"user_simulator_config": None, "min_pass_rate": 1.0, "retries": 0, "trials": 1},
        ),
        (
            ReporterConfig(),
            {"enabled": True, "output_dir": "eval_reports", "console": True, "json_report": True, "html": True}
            | {"junit_xml": False, "verbose": True, "include_details": True, "include_trajectory": True}
            | {"include_node_responses": True, "include_actual_response": True, "include_tool_call_details": True}
            | {"timestamp_files": True},
        ),
        (
            UserSimulatorConfig(),
            {"model": "gemini-2.5-flash", "max_invocations": 10, "temperature": 0.7, "thinking_enabled": False}
            | {"thinking_budget": 10240, "api_style": "responses"},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_defaults(model: EvalConfig | ReporterConfig | UserSimulatorConfig, expected: dict[str, Any]) -> None:
    """Defaults are the documented ones."""
    dumped = model.model_dump()
    assert expected == {name: dumped[name] for name in expected}


def test_nothing_runs_by_default() -> None:
    """An empty config has every slot empty."""
    assert EvalConfig().criteria.enabled() == {}
    assert all(value is None for value in CriteriaConfig().model_dump().values())


# Slots


@pytest.mark.parametrize("slot", SLOTS)
def test_general_settings_into_any_slot(slot: str) -> None:
    """`CriterionConfig` fits into every slot; what the slot does not use and nobody changed is dropped."""
    needed = {name: value for name, value in MINIMAL[slot].items() if name in CriterionConfig.model_fields}
    if slot == "budget":
        with pytest.raises(ValidationError, match="sets no limit"):
            CriteriaConfig(budget=CriterionConfig())
        return
    criteria = CriteriaConfig(**{slot: CriterionConfig(threshold=0.4, enabled=False, **needed)})
    config = getattr(criteria, slot)
    assert type(config) is SLOTS[slot]
    assert (config.threshold, config.enabled) == (0.4, False)


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot != "budget"])
def test_files_of_the_original(tmp_path: Path, slot: str) -> None:
    """A full dump of the original's settings loads in each slot."""
    settings = ORIGINAL | ({"rubrics": [RUBRIC.model_dump()]} if slot == "rubric_based" else {})
    config = load(tmp_path, {"criteria": {slot: settings}})
    loaded = getattr(config.criteria, slot)
    assert loaded.threshold == 0.8
    assert loaded.model_fields_set <= SLOTS[slot].model_fields.keys()
    if isinstance(loaded, JudgedConfig):
        assert (loaded.judge_model, loaded.num_samples) == ("gemini-2.5-flash", 3)


@pytest.mark.parametrize(
    ("slot", "changed"),
    [
        ("contains_keywords", {"judge_model": "m-large"}),
        ("trajectory", {"num_samples": 5}),
        ("tool_name_match", {"match_type": "IN_ORDER"}),
        ("node_order", {"check_args": True}),
        ("llm_judge", {"keywords": ["a"]}),
        ("rouge_match", {"rubrics": [{"rubric_id": "r", "content": "c"}]}),
        ("exact_match", {"api_style": "chat"}),
    ],
)
def test_unused_settings_are_refused(tmp_path: Path, slot: str, changed: dict[str, Any]) -> None:
    """A general setting that somebody changed and the slot does not use is an error that says so."""
    (name,) = changed
    text = problems(tmp_path, {"criteria": {slot: ORIGINAL | changed}})
    assert f"criteria.{slot}.{name}: not used by {slot} (it takes: threshold, enabled" in text


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (
            {"criteria": {"trajectry": {}}},
            ['criteria.trajectry: unknown key; did you mean "trajectory"', "allowed: tool"],
        ),
        ({"criteria": {"tool_trajectory_avg_score": {}}}, ['did you mean "trajectory"']),
        ({"criteria": {"hallucinations_v1": {}}}, ['did you mean "hallucination"']),
        ({"criteria": {"rouge_match": {"threshold": 80}}}, ["threshold: must be between 0 and 1, got number 80"]),
        ({"criteria": {"rouge_match": {"threshold": -0.1}}}, ["threshold: must be between 0 and 1, got number -0.1"]),
        ({"criteria": {"rouge_match": {"threshold": "0.8"}}}, ['threshold: must be a number, got text "0.8"']),
        ({"criteria": {"rouge_match": {"threshold": True}}}, ["threshold: must be a number, got true"]),
        ('{"criteria": {"rouge_match": {"threshold": NaN}}}', ["threshold: must be a finite number, got number NaN"]),
        ({"criteria": {"rouge_match": {"enabled": "yes"}}}, ['enabled: must be true or false, got text "yes"']),
        ({"criteria": {"rouge_match": {"enabled": 1}}}, ["enabled: must be true or false, got number 1"]),
        ({"criteria": {"rouge_match": 0.8}}, ["criteria.rouge_match: must be an object, got number 0.8"]),
        ({"criteria": {"rouge_match": []}}, ["criteria.rouge_match: must be an object, got list []"]),
        ({"criteria": []}, ["criteria: must be an object, got list []"]),
        (
            {"criteria": {"trajectory": {"match_type": "in order"}}},
            ["'EXACT', 'IN_ORDER' or 'ANY_ORDER'", "'IN_OR"],
        ),
        ({"criteria": {"trajectory": {"args_mode": "partial"}}}, ["'exact', 'subset' or 'ignore'"]),
        ({"criteria": {"trajectory": {"args_mode": "subset", "check_args": False}}}, ["check_args false contradicts"]),
        ({"criteria": {"contains_keywords": {"keywords": ["ok", "\u200b\u00ad", ""]}}}, ["keywords[1]: is empty"]),
        ({"criteria": {"contains_keywords": {"keywords": []}}}, ["keywords: must be a list that is not empty"]),
        ({"criteria": {"contains_keywords": {"forbidden": [""]}}}, ["forbidden[0]: is empty"]),
        ({"criteria": {"rubric_based": {}}}, ["criteria.rubric_based.rubrics: required key is missing"]),
        (
            {"criteria": {"rubric_based": {"rubrics": [{"rubric_id": "a", "content": "b", "weight": 0}]}}},
            ["weight is 0"],
        ),
        (
            {"criteria": {"rubric_based": {"rubrics": [{"rubric_id": "a", "content": "b"}] * 2}}},
            ['rubric_id "a" occurs twice'],
        ),
        ({"criteria": {"rubric_based": {"rubrics": [{"rubric_id": "a", "content": "b", "weight": -1}]}}}, ["weight"]),
        ({"criteria": {"budget": {}}}, ["criteria.budget: sets no limit; give at least one of max_iterations"]),
        ({"criteria": {"llm_judge": {"num_samples": 0}}}, ["num_samples", "greater than or equal to 1"]),
        ({"criteria": {"llm_judge": {"judge_model": ""}}}, ["judge_model: must be text that is not empty"]),
        ({"timeout": 0}, ["timeout: must be greater than 0, got number 0"]),
        ('{"timeout": Infinity}', ["timeout: must be a finite number"]),
        ({"max_concurrency": 0}, ["max_concurrency", "got number 0"]),
        ({"min_pass_rate": 0}, ["min_pass_rate: must be above 0 and at most 1, got number 0"]),
        ({"min_pass_rate": 1.1}, ["min_pass_rate: must be above 0 and at most 1"]),
        ({"reporter": {"outputDir": "x"}}, ['reporter.outputDir: unknown key; did you mean "output_dir"']),
        ({"agent_options": {"output_key": "a", "output_node": "b"}}, ["not both"]),
        ({"replay_only": True}, ["replay_only needs judge_cache"]),
    ],
)
def test_refused(tmp_path: Path, content: Any, parts: list[str]) -> None:
    """A setting that makes no sense is an error when the file is loaded, with its place and what would do."""
    text = problems(tmp_path, content)
    assert not [part for part in parts if part not in text], text


def test_extra_keys_in_code() -> None:
    """A free-form dict of criteria is refused in code too."""
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        EvalConfig(criteria={"accuracy": 0.8})


def test_keywords_given_twice_count_once() -> None:
    """Repeated keywords do not weigh more."""
    assert CriterionConfig.contains_keywords(["oak", "elm", "oak"]).keywords == ["oak", "elm"]


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        ({}, "ignore"),
        ({"check_args": True}, "exact"),
        ({"check_args": False}, "ignore"),
        ({"args_mode": "subset"}, "subset"),
        ({"args_mode": "exact"}, "exact"),
        ({"args_mode": "subset", "check_args": True}, "subset"),
        ({"args_mode": "ignore", "check_args": True}, "ignore"),
    ],
)
def test_args_mode(settings: dict[str, Any], mode: str) -> None:
    """``args_mode`` is finer than ``check_args`` and wins."""
    assert mode == TrajectoryConfig(**settings).effective_args_mode


def test_assignments_are_checked() -> None:
    """Bounds hold for later changes too."""
    config = EvalConfig.default()
    assert config.criteria.trajectory is not None
    with pytest.raises(ValidationError):
        config.criteria.trajectory.threshold = 1.5
    with pytest.raises(ValidationError):
        config.criteria.trajectory = LLMJudgeConfig()  # type: ignore[assignment]


def test_overriding_replaces_whole_slots() -> None:
    """A slot that the other gives replaces the whole slot; null takes it away; the rest stays."""
    base = EvalConfig.strict().criteria
    other = CriteriaConfig(trajectory=TrajectoryConfig(match_type=MatchType.ANY_ORDER), llm_judge=None)
    merged = base.overridden_by(other)
    assert values(merged.trajectory) == values(other.trajectory)
    assert merged.llm_judge is None
    assert merged.response_match == base.response_match
    assert base.overridden_by(None) is base
    assert base.overridden_by(CriteriaConfig()) is base


# Methods


def test_enable_criterion() -> None:
    """A slot is switched on with given settings, with those it has, or with the factory's defaults."""
    config = EvalConfig()
    config.enable_criterion("rouge_match")
    assert values(config.get_criterion_config("rouge_match"))["threshold"] == 0.5
    config.enable_criterion("rouge_match", CriterionConfig.rouge_match(0.3))
    config.disable_criterion("rouge_match")
    assert config.criteria.enabled() == {}
    config.enable_criterion("rouge_match")
    assert values(config.get_criterion_config("rouge_match"))["threshold"] == 0.3
    config.enable_criterion("node_order", CriterionConfig(threshold=0.9))
    assert list(config.criteria.enabled()) == ["node_order", "rouge_match"]


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if not MINIMAL[slot]])
def test_enable_every_criterion(slot: str) -> None:
    """Every slot that needs no more than defaults can be switched on by name, and off again."""
    config = EvalConfig()
    config.enable_criterion(slot)
    assert list(config.criteria.enabled()) == [slot]
    config.disable_criterion(slot)
    assert config.criteria.enabled() == {}
    assert config.get_criterion_config(slot) is not None


def test_disable_an_empty_slot() -> None:
    """Switching off what is off changes nothing."""
    config = EvalConfig()
    config.disable_criterion("safety")
    assert config == EvalConfig()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("trajectry", "did you mean 'trajectory'"),
        ("safety_v1", "did you mean 'safety'"),
        ("accuracy", "known: tool"),
    ],
)
def test_unknown_criterion(name: str, hint: str) -> None:
    """An unknown name is a `ValueError` that lists the known ones."""
    config = EvalConfig()
    for call in (config.get_criterion_config, config.enable_criterion, config.disable_criterion):
        with pytest.raises(UsageError, match=hint) as caught:
            call(name)
        assert isinstance(caught.value, ValueError)


def test_with_rubrics() -> None:
    """A deep copy grades by the rubrics, keeps the slot's other settings, and leaves the first config alone."""
    config = EvalConfig(criteria=CriteriaConfig(rubric_based=RubricBasedConfig(rubrics=[RUBRIC], threshold=0.6)))
    config.disable_criterion("rubric_based")
    short = Rubric.create("short", "The answer is short.", 2.0)
    copy = config.with_rubrics([short])
    assert copy.criteria.rubric_based is not None
    assert copy.criteria.rubric_based.rubrics == [short]
    assert (copy.criteria.rubric_based.threshold, copy.criteria.rubric_based.enabled) == (0.6, True)
    assert config.criteria.rubric_based is not None
    assert config.criteria.rubric_based.rubrics == [RUBRIC]
    copy.reporter.html = False
    assert config.reporter.html
    assert EvalConfig().with_rubrics([RUBRIC]).criteria.rubric_based is not None


# Files


@pytest.mark.parametrize(
    "config",
    [
        EvalConfig(),
        EvalConfig(agent_options=AgentOptions(input_key="question", output_node="ANSWER", initial_state={"n": [1]})),
        EvalConfig.default(),
        EvalConfig.strict(),
        EvalConfig.relaxed().with_rubrics([RUBRIC]),
        EvalConfig(
            criteria=CriteriaConfig(
                trajectory=TrajectoryConfig(args_mode="subset", tool_defaults={"find": {"limit": 5}}),
                contains_keywords=CriterionConfig.contains_keywords(["Käse", "\u0130"]),
                budget=CriterionConfig.budget(max_duration_seconds=2.5),
            ),
            timeout=12,
            reporter=ReporterConfig(junit_xml=True, templates=["a.md.j2"]),
            user_simulator_config=UserSimulatorConfig(),
        ),
    ],
)
def test_save_then_load(tmp_path: Path, config: EvalConfig) -> None:
    """Saving and loading gives the same config and the same bytes."""
    path, again = tmp_path / "a.json", tmp_path / "b.json"
    config.to_file(path)
    loaded = EvalConfig.from_file(str(path))
    assert config == loaded
    loaded.to_file(again)
    assert path.read_bytes() == again.read_bytes()


def test_untouched_defaults_are_not_written(tmp_path: Path) -> None:
    """Only what somebody wrote is saved, changes in place included."""
    config = EvalConfig()
    config.to_file(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == {}
    config.reporter.html = False
    config.reporter.templates.append("x.j2")
    config.enable_criterion("safety", SLOTS["safety"](threshold=0.9))
    config.to_file(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "criteria": {"safety": {"threshold": 0.9}},
        "reporter": {"html": False, "templates": ["x.j2"]},
    }


def test_schema_address_is_kept(tmp_path: Path) -> None:
    """Editors find the schema again after a save."""
    config = load(tmp_path, {"$schema": "https://example.org/c.json", "verbose": True})
    config.to_file(tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text())["$schema"] == "https://example.org/c.json"


# JSON Schema


def undescribed(schema: dict[str, Any], place: str, models: dict[str, Any], seen: set[str]) -> Iterator[str]:
    """The properties without a description, wherever they stand."""
    reference = schema.get("$ref", "").rpartition("/")[2]
    if reference and reference not in seen:
        seen.add(reference)
        yield from undescribed(models[reference], reference, models, seen)
    for name, inner in schema.get("properties", {}).items():
        if not inner.get("description"):
            yield f"{place}.{name}"
        yield from undescribed(inner, f"{place}.{name}", models, seen)
    for inner in [*schema.get("anyOf", []), schema.get("items"), schema.get("additionalProperties")]:
        if isinstance(inner, dict):
            yield from undescribed(inner, place, models, seen)


@pytest.mark.parametrize("cls", [EvalSet, EvalConfig, CriterionConfig, *SLOTS.values()])
def test_schema_describes_everything(cls: type[EvalSet | EvalConfig | BaseCriterionConfig]) -> None:
    """Editors can show what each key means."""
    schema = cls.model_json_schema()
    assert not list(undescribed(schema, cls.__name__, schema.get("$defs", {}), set()))
    assert schema["additionalProperties"] is False
