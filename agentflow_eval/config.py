"""What a config file may say: which criteria run, how each scores, and how the run goes."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from agentflow_eval._files import model_text, read_model, write_text
from agentflow_eval._values import visible
from agentflow_eval.errors import UsageError, did_you_mean

DEFAULT_JUDGE_MODEL = "gemini-2.5-flash"
"""The model of every judged criterion that names none."""

NonEmptyText = Annotated[str, Field(min_length=1)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0)]
PositiveCount = Annotated[int, Field(strict=True, ge=1)]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Scope = Literal["case", "turn"]


def _spec(text: str) -> str:
    if not re.fullmatch(r"[^\s:]+:[^\s:]+", text):
        message = f"must be module:attribute such as my_package.my_module:my_function, got {text!r}"
        raise PydanticCustomError("says_it_all", "{message}", {"message": message})
    return text


Spec = Annotated[str, AfterValidator(_spec)]
"""``module:attribute``."""


class MatchType(StrEnum):
    """How a sequence is compared with the expected one."""

    EXACT = "EXACT"
    """The same items at the same positions."""
    IN_ORDER = "IN_ORDER"
    """Every expected item, in order; others may stand between them."""
    ANY_ORDER = "ANY_ORDER"
    """Every expected item, in any order; others may be there too."""


class Rubric(BaseModel):
    """One rule that a judge grades an answer by."""

    model_config = ConfigDict(extra="forbid")

    rubric_id: NonEmptyText = Field(description="Unique among the rubrics of one criterion.")
    content: NonEmptyText = Field(description="The rule, as the judge reads it.")
    weight: Weight = Field(1.0, description="Relative importance; the weights need not sum to 1.")

    @classmethod
    def create(cls, rubric_id: str, content: str, weight: float = 1.0) -> Self:
        """A rubric from its three values."""
        return cls(rubric_id=rubric_id, content=content, weight=weight)


def _keywords(words: list[str]) -> list[str]:
    for index, word in enumerate(words):
        if not visible(word).strip():
            message = "is empty; a keyword needs at least one visible character"
            raise PydanticCustomError("says_it_all", "{message}", {"message": message, "inner": f"[{index}]"})
    return list(dict.fromkeys(words))


Keywords = Annotated[list[str], AfterValidator(_keywords)]


class BaseCriterionConfig(BaseModel):
    """What every criterion slot has."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    threshold: Share = Field(0.8, description="The least score that passes, 0..1.")
    enabled: Flag = Field(True, description="false switches the criterion off without losing its settings.")


class _ScopedConfig(BaseCriterionConfig):
    scope: Scope = Field(
        "case",
        description="case: the whole conversation is scored once. turn: each turn is scored by its own expectations; "
        "the score is their mean and every judged turn has to pass.",
    )


class ToolNameMatchConfig(_ScopedConfig):
    """Were the expected tools called, in any order?"""

    allow_additional: Flag = Field(True, description="Whether tools beyond the expected ones may be called.")
    forbidden: list[NonEmptyText] = Field([], description="Names of tools that may not be called at all.")


class TrajectoryConfig(_ScopedConfig):
    """Were the expected tool calls made, in the given order and with the given arguments?"""

    match_type: MatchType = Field(MatchType.EXACT, description="EXACT, IN_ORDER or ANY_ORDER.")
    check_args: Flag = Field(False, description="Whether arguments are compared; true is args_mode exact.")
    args_mode: Literal["exact", "subset", "ignore"] | None = Field(
        None,
        description="exact: the same keys and values. subset: the expected keys, others allowed. ignore: names only. "
        "Left out: check_args decides.",
    )
    tool_defaults: dict[str, dict[str, Any]] = Field(
        {}, description="tool -> argument -> value taken when a call leaves that argument out, on both sides."
    )
    require_success: Flag = Field(False, description="true: a call that ended in an error does not match.")

    @model_validator(mode="after")
    def _one_word_on_args(self) -> Self:
        contradicts = self.args_mode in ("exact", "subset") and not self.check_args
        if contradicts and "check_args" in self.model_fields_set:
            raise ValueError(f'check_args false contradicts args_mode "{self.args_mode}"; leave one of them out')
        return self

    @property
    def effective_args_mode(self) -> Literal["exact", "subset", "ignore"]:
        """The way arguments are compared after ``args_mode`` and ``check_args`` are both considered."""
        return self.args_mode or ("exact" if self.check_args else "ignore")


class NodeOrderConfig(_ScopedConfig):
    """Did the graph visit the expected nodes?"""

    match_type: MatchType = Field(MatchType.EXACT, description="EXACT, IN_ORDER or ANY_ORDER.")


class RougeMatchConfig(_ScopedConfig):
    """How many words does the answer share with the expected answer?"""

    variant: Literal["rouge1", "rouge2", "rougeL"] = Field(
        "rouge1", description="rouge1: words. rouge2: word pairs. rougeL: longest common subsequence."
    )


class ContainsKeywordsConfig(_ScopedConfig):
    """Does the answer contain the keywords?"""

    keywords: Annotated[Keywords, Field(min_length=1)] | None = Field(
        None, description="Keywords for every case. Left out: only the keywords that cases and turns state themselves."
    )
    forbidden: Keywords = Field([], description="Keywords that may not occur.")
    match: Literal["substring", "word"] = Field("substring", description="word: only whole words count.")
    scan: Literal["final_message", "all_messages"] = Field(
        "final_message", description="all_messages: every assistant message of the turn is searched."
    )


class ExactMatchConfig(_ScopedConfig):
    """Is the answer the expected text, apart from white space at its ends?"""

    threshold: Share = Field(1.0, description="The least score that passes, 0..1.")


class BudgetConfig(BaseCriterionConfig):
    """Did the run stay within its limits? The score is the share of the limits that were respected."""

    threshold: Share = Field(1.0, description="The least share of respected limits that passes, 0..1.")
    max_iterations: Count | None = Field(None, description="Model turns; node visits where a runtime shows no model.")
    max_tool_calls: Count | None = Field(None, description="Tool calls of the whole conversation.")
    max_duration_seconds: Seconds | None = Field(None, description="Seconds the agent took, all turns together.")
    max_total_tokens: Count | None = Field(None, description="Tokens of the agent, input and output together.")

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if not self.limits():
            raise ValueError(
                "sets no limit; give at least one of max_iterations, max_tool_calls, max_duration_seconds, "
                "max_total_tokens"
            )
        return self

    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        names = ("max_iterations", "max_tool_calls", "max_duration_seconds", "max_total_tokens")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class JudgedConfig(_ScopedConfig):
    """What every criterion has that asks a model."""

    judge_model: NonEmptyText = Field(DEFAULT_JUDGE_MODEL, description="The model that judges.")
    num_samples: PositiveCount = Field(3, description="How many independent verdicts are asked for.")
    aggregate: Literal["mean", "median", "majority"] = Field(
        "mean",
        description="How the verdicts become one score. majority: 1 when most of them meet the threshold, else 0.",
    )
    scale: Literal["0-1", "1-10", "binary"] | None = Field(
        None, description="What the judge answers; 1-10 is divided by 10. Left out: 0-1, and binary for goals."
    )
    instructions: NonEmptyText | None = Field(None, description="More for the judge to consider, in plain words.")
    prompt: NonEmptyText | None = Field(None, description="Path of your own Jinja2 prompt instead of the built-in one.")
    api_style: NonEmptyText = Field("responses", description="How the provider's API is called.")


class ResponseMatchConfig(JudgedConfig):
    """Does a judge find that the answer means the same as the expected answer?"""


class LLMJudgeConfig(JudgedConfig):
    """How good does a judge find the answer, given the expected answer?"""


class RubricBasedConfig(JudgedConfig):
    """How well does a judge find that the answer follows each rubric?"""

    rubrics: Annotated[list[Rubric], Field(min_length=1)] = Field(description="The rules, at least one.")

    @model_validator(mode="after")
    def _rubrics_count(self) -> Self:
        ids = [rubric.rubric_id for rubric in self.rubrics]
        for rubric_id in ids:
            if ids.count(rubric_id) > 1:
                raise ValueError(f'rubrics: rubric_id "{rubric_id}" occurs twice; ids are unique')
        if not any(rubric.weight for rubric in self.rubrics):
            raise ValueError("rubrics: every weight is 0; at least one weight must be above 0")
        return self


class FactualAccuracyConfig(JudgedConfig):
    """Does a judge find the facts of the answer right?"""


class HallucinationConfig(JudgedConfig):
    """Does a judge find the answer grounded in what the tools returned?"""


class SafetyConfig(JudgedConfig):
    """Does a judge find the answer safe?"""


class SimulationGoalsConfig(JudgedConfig):
    """Does a judge find that the conversation reached its goals?"""


class CriterionConfig(BaseCriterionConfig):
    """Settings for any criterion; the slot it is put into takes those it uses.

    Values that the slot does not use are dropped when they hold their default, and refused otherwise.
    """

    match_type: MatchType = Field(MatchType.EXACT, description="For trajectory and node_order.")
    judge_model: NonEmptyText = Field(DEFAULT_JUDGE_MODEL, description="For criteria that ask a model.")
    num_samples: PositiveCount = Field(3, description="For criteria that ask a model.")
    rubrics: list[Rubric] = Field([], description="For rubric_based.")
    keywords: Keywords = Field([], description="For contains_keywords.")
    check_args: Flag = Field(False, description="For trajectory.")
    api_style: NonEmptyText = Field("responses", description="For criteria that ask a model.")

    @staticmethod
    def tool_name_match(threshold: float = 1.0) -> ToolNameMatchConfig:
        """For the slot ``tool_name_match``."""
        return ToolNameMatchConfig(threshold=threshold)

    @staticmethod
    def trajectory(
        threshold: float = 1.0, match_type: MatchType = MatchType.EXACT, check_args: bool = False
    ) -> TrajectoryConfig:
        """For the slot ``trajectory``."""
        return TrajectoryConfig(threshold=threshold, match_type=match_type, check_args=check_args)

    @staticmethod
    def node_order(threshold: float = 1.0, match_type: MatchType = MatchType.EXACT) -> NodeOrderConfig:
        """For the slot ``node_order``."""
        return NodeOrderConfig(threshold=threshold, match_type=match_type)

    @staticmethod
    def response_match(
        threshold: float = 0.8, judge_model: str = DEFAULT_JUDGE_MODEL, num_samples: int = 3
    ) -> ResponseMatchConfig:
        """For the slot ``response_match``."""
        return ResponseMatchConfig(threshold=threshold, judge_model=judge_model, num_samples=num_samples)

    @staticmethod
    def rouge_match(threshold: float = 0.5) -> RougeMatchConfig:
        """For the slot ``rouge_match``."""
        return RougeMatchConfig(threshold=threshold)

    @staticmethod
    def contains_keywords(keywords: Sequence[str], threshold: float = 1.0) -> ContainsKeywordsConfig:
        """For the slot ``contains_keywords``."""
        return ContainsKeywordsConfig(threshold=threshold, keywords=list(keywords))

    @staticmethod
    def exact_match(threshold: float = 1.0) -> ExactMatchConfig:
        """For the slot ``exact_match``."""
        return ExactMatchConfig(threshold=threshold)

    @staticmethod
    def budget(
        threshold: float = 1.0,
        max_iterations: int | None = None,
        max_tool_calls: int | None = None,
        max_duration_seconds: float | None = None,
        max_total_tokens: int | None = None,
    ) -> BudgetConfig:
        """For the slot ``budget``."""
        return BudgetConfig(
            threshold=threshold,
            max_iterations=max_iterations,
            max_tool_calls=max_tool_calls,
            max_duration_seconds=max_duration_seconds,
            max_total_tokens=max_total_tokens,
        )

    @staticmethod
    def llm_judge(
        threshold: float = 0.8, judge_model: str = DEFAULT_JUDGE_MODEL, num_samples: int = 3
    ) -> LLMJudgeConfig:
        """For the slot ``llm_judge``."""
        return LLMJudgeConfig(threshold=threshold, judge_model=judge_model, num_samples=num_samples)

    @staticmethod
    def rubric_based(
        rubrics: Sequence[Rubric], threshold: float = 0.8, judge_model: str = DEFAULT_JUDGE_MODEL
    ) -> RubricBasedConfig:
        """For the slot ``rubric_based``."""
        return RubricBasedConfig(threshold=threshold, judge_model=judge_model, rubrics=list(rubrics))

    @staticmethod
    def factual_accuracy(
        threshold: float = 0.8, judge_model: str = DEFAULT_JUDGE_MODEL, num_samples: int = 3
    ) -> FactualAccuracyConfig:
        """For the slot ``factual_accuracy``."""
        return FactualAccuracyConfig(threshold=threshold, judge_model=judge_model, num_samples=num_samples)

    @staticmethod
    def hallucination(
        threshold: float = 0.8, judge_model: str = DEFAULT_JUDGE_MODEL, num_samples: int = 3
    ) -> HallucinationConfig:
        """For the slot ``hallucination``."""
        return HallucinationConfig(threshold=threshold, judge_model=judge_model, num_samples=num_samples)

    @staticmethod
    def safety(threshold: float = 0.8, judge_model: str = DEFAULT_JUDGE_MODEL, num_samples: int = 3) -> SafetyConfig:
        """For the slot ``safety``."""
        return SafetyConfig(threshold=threshold, judge_model=judge_model, num_samples=num_samples)


SLOTS: dict[str, type[BaseCriterionConfig]] = {
    "tool_name_match": ToolNameMatchConfig,
    "trajectory": TrajectoryConfig,
    "node_order": NodeOrderConfig,
    "response_match": ResponseMatchConfig,
    "rouge_match": RougeMatchConfig,
    "contains_keywords": ContainsKeywordsConfig,
    "exact_match": ExactMatchConfig,
    "budget": BudgetConfig,
    "llm_judge": LLMJudgeConfig,
    "rubric_based": RubricBasedConfig,
    "factual_accuracy": FactualAccuracyConfig,
    "hallucination": HallucinationConfig,
    "safety": SafetyConfig,
    "simulation_goals": SimulationGoalsConfig,
}
"""Slot name -> the class of its settings, in the order in which criteria run."""

REPORTED_NAMES: dict[str, str] = {
    "tool_name_match": "tool_name_match_score",
    "trajectory": "tool_trajectory_avg_score",
    "node_order": "node_order_score",
    "response_match": "response_match_score",
    "rouge_match": "rouge_match",
    "contains_keywords": "contains_keywords",
    "exact_match": "exact_match",
    "budget": "budget",
    "llm_judge": "final_response_match_v2",
    "rubric_based": "rubric_based_final_response_quality_v1",
    "factual_accuracy": "factual_accuracy_v1",
    "hallucination": "hallucinations_v1",
    "safety": "safety_v1",
    "simulation_goals": "simulation_goals",
}
"""Slot name -> the name under which reports show the criterion."""

_GENERAL_DEFAULTS = {name: info.default for name, info in CriterionConfig.model_fields.items()}


def _into_slot(slot: str, value: Any) -> Any:
    """Settings for any criterion, as the settings of one slot: unused general values that hold a default go."""
    if isinstance(value, CriterionConfig):
        value = {"threshold": value.threshold} | value.model_dump(exclude_unset=True)
    if not isinstance(value, dict):
        return value
    used = SLOTS[slot].model_fields
    kept = {
        key: item
        for key, item in value.items()
        if key in used or key not in _GENERAL_DEFAULTS or item != _GENERAL_DEFAULTS[key]
    }
    if kept.get("keywords") == [] and isinstance(value, dict) and "judge_model" in value:
        del kept["keywords"]  # the original writes every general field: its empty list means "none given"
    return kept


for _slot, _class in SLOTS.items():
    _class.refused_keys = {  # type: ignore[attr-defined]  # read by the explanation of unknown keys
        key: f"not used by {_slot} (it takes: {', '.join(_class.model_fields)})"
        for key in _GENERAL_DEFAULTS
        if key not in _class.model_fields
    }


def _slot_validator(slot: str) -> BeforeValidator:
    return BeforeValidator(partial(_into_slot, slot))


def _describe_slots(schema: dict[str, Any]) -> None:
    for slot, cls in SLOTS.items():
        schema["properties"][slot]["description"] = (cls.__doc__ or "").partition("\n")[0]


class CriteriaConfig(BaseModel):
    """Which criteria run: a closed set of slots, each off until it is given."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, json_schema_extra=_describe_slots)
    other_names: ClassVar[Mapping[str, str]] = {
        reported: slot for slot, reported in REPORTED_NAMES.items() if reported != slot
    }

    tool_name_match: Annotated[ToolNameMatchConfig | None, _slot_validator("tool_name_match")] = None
    trajectory: Annotated[TrajectoryConfig | None, _slot_validator("trajectory")] = None
    node_order: Annotated[NodeOrderConfig | None, _slot_validator("node_order")] = None
    response_match: Annotated[ResponseMatchConfig | None, _slot_validator("response_match")] = None
    rouge_match: Annotated[RougeMatchConfig | None, _slot_validator("rouge_match")] = None
    contains_keywords: Annotated[ContainsKeywordsConfig | None, _slot_validator("contains_keywords")] = None
    exact_match: Annotated[ExactMatchConfig | None, _slot_validator("exact_match")] = None
    budget: Annotated[BudgetConfig | None, _slot_validator("budget")] = None
    llm_judge: Annotated[LLMJudgeConfig | None, _slot_validator("llm_judge")] = None
    rubric_based: Annotated[RubricBasedConfig | None, _slot_validator("rubric_based")] = None
    factual_accuracy: Annotated[FactualAccuracyConfig | None, _slot_validator("factual_accuracy")] = None
    hallucination: Annotated[HallucinationConfig | None, _slot_validator("hallucination")] = None
    safety: Annotated[SafetyConfig | None, _slot_validator("safety")] = None
    simulation_goals: Annotated[SimulationGoalsConfig | None, _slot_validator("simulation_goals")] = None

    def enabled(self) -> dict[str, BaseCriterionConfig]:
        """The slots that are on, in running order."""
        slots = {slot: getattr(self, slot) for slot in SLOTS}
        return {slot: config for slot, config in slots.items() if config is not None and config.enabled}

    def overridden_by(self, other: CriteriaConfig | None) -> CriteriaConfig:
        """These criteria with each slot that ``other`` gives replaced as a whole."""
        if other is None or not other.model_fields_set:
            return self
        return self.model_copy(update={slot: getattr(other, slot) for slot in other.model_fields_set})


class ReporterConfig(BaseModel):
    """Which reports are written, where, and how much they show."""

    model_config = ConfigDict(extra="forbid")

    enabled: Flag = Field(True, description="false: no report at all.")
    output_dir: NonEmptyText = Field("eval_reports", description="Folder, relative to the working directory.")
    console: Flag = Field(True, description="Print the outcome.")
    json_report: Flag = Field(True, description="Write STEM.json.")
    html: Flag = Field(True, description="Write STEM.html, one file that needs nothing else.")
    junit_xml: Flag = Field(False, description="Write STEM_junit.xml for a CI server.")
    junit_profile: Literal["default", "strict", "extended"] = Field(
        "default",
        description="default: read by every common CI server. strict: also valid in the Ant schema. "
        "extended: scores as properties of each test case.",
    )
    templates: list[NonEmptyText] = Field(
        [], description="Paths of your own Jinja2 templates; NAME.md.j2 is written to STEM_NAME.md."
    )
    verbose: Flag = Field(True, description="Console shows passed cases too, not only what needs a look.")
    include_details: Flag = Field(True, description="Show what each criterion compared.")
    include_trajectory: Flag = Field(True, description="Show the recorded steps.")
    include_node_responses: Flag = Field(True, description="Show input and output of each node.")
    include_actual_response: Flag = Field(True, description="Show the answers.")
    include_tool_call_details: Flag = Field(True, description="Show arguments and results of tool calls.")
    timestamp_files: Flag = Field(True, description="Add the local time to file names.")


class Price(BaseModel):
    """What a model's tokens cost, per million, in any one currency."""

    model_config = ConfigDict(extra="forbid")

    input: Weight = Field(description="Per million input tokens.")
    output: Weight = Field(description="Per million output tokens.")


class JudgeSettings(BaseModel):
    """How judges are reached."""

    model_config = ConfigDict(extra="forbid")

    function: NonEmptyText | None = Field(
        None,
        description="A judge of your own as module:attribute, an async function of the prompt; no provider is asked.",
    )
    base_url: NonEmptyText | None = Field(
        None, description="Address of an OpenAI-compatible API. Left out: the model's name and the environment decide."
    )
    api_key_env: NonEmptyText | None = Field(
        None,
        description="Environment variable that holds the key. With base_url a provider's own variable is not read.",
    )
    timeout: Seconds = Field(60.0, description="Seconds for one judge call, retries included.")
    max_retries: Count = Field(3, description="Retries on 408, 409, 429, 5xx and connection faults.")
    max_concurrency: PositiveCount = Field(8, description="Judge calls under way at once.")
    temperature: Annotated[float, Field(strict=True, ge=0, le=2, allow_inf_nan=False)] | None = Field(
        0.0, description="null: the provider's default, for models that take none."
    )
    max_tokens: PositiveCount | None = Field(
        2048, description="Longest reply; reasoning models need room to think. null: the provider's default."
    )
    prices: dict[str, Price] = Field({}, description="Model -> price, to sum up what the judges cost.")


JudgedSlot = Literal[
    "response_match",
    "llm_judge",
    "rubric_based",
    "factual_accuracy",
    "hallucination",
    "safety",
    "simulation_goals",
]


class JudgeControl(BaseModel):
    """A known answer that judges have to get right in every run."""

    model_config = ConfigDict(extra="forbid")

    question: NonEmptyText = Field(description="What the user asked.")
    answer: NonEmptyText = Field(description="What an agent answered.")
    expected_response: NonEmptyText | None = Field(None, description="The expected answer, where there is one.")
    context: str | None = Field(None, description="What the answer may be grounded in.")
    good: Flag = Field(description="true: the criterion has to pass it. false: it has to fail it.")
    criteria: list[JudgedSlot] = Field([], description="Slots it is for; empty means every judged slot that is on.")


class UserSimulatorConfig(BaseModel):
    """How a model plays the user."""

    model_config = ConfigDict(extra="forbid")

    model: NonEmptyText = Field(DEFAULT_JUDGE_MODEL, description="The model.")
    max_invocations: PositiveCount = Field(10, description="Turns that the user takes at most.")
    temperature: Annotated[float, Field(strict=True, ge=0, le=2, allow_inf_nan=False)] = Field(
        0.7, description="How much the user's words vary."
    )
    thinking_enabled: Flag = Field(False, description="Whether the model thinks before it speaks.")
    thinking_budget: Count = Field(10240, description="Tokens for thinking.")
    api_style: NonEmptyText = Field("responses", description="How the provider's API is called.")


class AgentOptions(BaseModel):
    """How a graph whose state is not a list of messages is asked and read."""

    model_config = ConfigDict(extra="forbid")

    input_key: NonEmptyText | None = Field(None, description="Field of the state that takes the user's text.")
    output_key: NonEmptyText | None = Field(None, description="Field of the final state that holds the answer.")
    output_node: NonEmptyText | None = Field(None, description="Node whose last own output is the answer.")
    initial_state: dict[str, Any] = Field({}, description="Fields that every run starts with.")

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if self.output_key is not None and self.output_node is not None:
            raise ValueError("give output_key (a field of the state) or output_node (a node's output), not both")
        return self


_SECRET_HEADERS = re.compile(r"authorization|cookie|.*(key|token|secret)", re.IGNORECASE)
ENVIRONMENT_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""How a text names an environment variable: ``${NAME}``."""


class EndpointResponse(BaseModel):
    """Where the reply of an endpoint says what the agent did: JMESPath expressions."""

    model_config = ConfigDict(extra="forbid")

    answer: NonEmptyText = Field(description="The answer of this turn.")
    tool_calls: NonEmptyText | None = Field(None, description="The list of this turn's tool calls.")
    tool_name: NonEmptyText = Field("name", description="In a tool call: the tool.")
    tool_arguments: NonEmptyText = Field("arguments", description="In a tool call: an object, or JSON text of one.")
    tool_result: NonEmptyText = Field("result", description="In a tool call: what it returned.")
    tool_error: NonEmptyText = Field("error", description="In a tool call: why it failed.")
    tool_id: NonEmptyText = Field("id", description="In a tool call: its id.")
    nodes: NonEmptyText | None = Field(None, description="The list of names of the nodes that this turn visited.")
    input_tokens: NonEmptyText | None = Field(None, description="Tokens that the agent's models read.")
    output_tokens: NonEmptyText | None = Field(None, description="Tokens that the agent's models wrote.")
    error: NonEmptyText | None = Field(None, description="Why the agent failed; null, false or empty when it did not.")
    conversation: NonEmptyText | None = Field(
        None, description="The endpoint's own id of the conversation, for {{ conversation }} in the next request."
    )

    @field_validator("*")
    @classmethod
    def _is_jmespath(cls, value: str | None) -> str | None:
        if value is None or importlib.util.find_spec("jmespath") is None:  # driving the endpoint will ask for it
            return value
        import jmespath

        try:
            jmespath.compile(value)
        except jmespath.exceptions.JMESPathError as exc:
            message = f"not a JMESPath expression: {str(exc).splitlines()[0]}"
            raise PydanticCustomError("says_it_all", "{message}", {"message": message}) from exc
        return value


class HttpEndpoint(BaseModel):
    """An agent behind HTTP: an OpenAI-compatible chat endpoint, or any that takes and gives JSON.

    Secrets stand in environment variables: ``api_key_env`` names one, and headers may say ``${NAME}``.
    """

    model_config = ConfigDict(extra="forbid")

    url: NonEmptyText = Field(description="Address; of an OpenAI-compatible API without /chat/completions.")
    protocol: Literal["openai", "json"] = Field("openai", description="Chat completions, or request and response.")
    api_key_env: NonEmptyText | None = Field(
        None, description="Environment variable that holds the key; sent as Authorization: Bearer."
    )
    headers: dict[NonEmptyText, str] = Field(
        {}, description="Sent with every call; ${NAME} is an environment variable."
    )
    timeout: Seconds = Field(60.0, description="Seconds one call may take.")
    model: NonEmptyText | None = Field(None, description="openai: the model's name.")
    system_prompt: NonEmptyText | None = Field(None, description="openai: the first message of every call.")
    parameters: dict[str, Any] = Field({}, description="openai: further fields of the call, such as temperature.")
    method: Literal["POST", "PUT", "PATCH"] = Field("POST", description="json: how the request is sent.")
    request: dict[str, Any] | None = Field(
        None,
        description="json: the body. Texts in it are Jinja2 templates over text, messages, session_id, user_id, "
        "app_name, state, turn (from 1) and conversation; one that is a single {{ ... }} becomes the value itself.",
    )
    response: EndpointResponse | None = Field(None, description="json: where the reply says what the agent did.")

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port or an IPv6 address that is none
            usable = False
        if not usable:
            message = f"must be an address such as https://agents.example.com/chat, got {value!r}"
            raise PydanticCustomError("says_it_all", "{message}", {"message": message})
        return value

    @field_validator("headers")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if _SECRET_HEADERS.fullmatch(name) and not ENVIRONMENT_VARIABLE.search(text):
                message = f"{name} looks like a secret: put it into an environment variable and write ${{ITS_NAME}}"
                raise PydanticCustomError("says_it_all", "{message}", {"message": message, "inner": f".{name}"})
        return value

    @model_validator(mode="after")
    def _fits_the_protocol(self) -> Self:
        needed: tuple[str, ...] = ("model",)
        foreign: tuple[str, ...] = ("method", "request", "response")
        if self.protocol == "json":
            needed, foreign = ("request", "response"), ("model", "system_prompt", "parameters")
        missing = [name for name in needed if getattr(self, name) is None]
        useless = [name for name in foreign if name in self.model_fields_set]
        if missing:
            raise ValueError(f'protocol "{self.protocol}" needs {" and ".join(missing)}')
        if useless:
            other = "json" if self.protocol == "openai" else "openai"
            raise ValueError(f'{", ".join(useless)} belongs to protocol "{other}", and protocol is "{self.protocol}"')
        return self


class EvalConfig(BaseModel):
    """The criteria of a run and how the run goes."""

    model_config = ConfigDict(
        extra="forbid",
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
        ser_json_inf_nan="strings",
    )

    schema_: str | None = Field(None, alias="$schema", description="The JSON Schema of this file, for editors.")
    agent: NonEmptyText | None = Field(None, description="The agent as module:attribute, for the command line.")
    endpoint: HttpEndpoint | None = Field(None, description="The agent behind HTTP, instead of agent.")
    agent_options: AgentOptions | None = Field(None, description="For graphs that are not message-shaped.")
    criteria: CriteriaConfig = Field(default_factory=CriteriaConfig, description="Which criteria run.")
    targets: dict[NonEmptyText, Spec] = Field(
        {}, description="Name -> module:attribute of an agent that cases can name as their target."
    )
    endpoints: dict[NonEmptyText, HttpEndpoint] = Field(
        {}, description="Name -> agent behind HTTP that cases can name as their target, beside targets."
    )
    checks: dict[NonEmptyText, Spec] = Field(
        {}, description="Name -> module:attribute of a function that cases and turns can name among their checks."
    )
    fixtures: dict[NonEmptyText, Spec] = Field(
        {}, description="Name -> module:attribute of a function or context manager that cases can name as a fixture."
    )
    user_simulator_config: UserSimulatorConfig | None = Field(None, description="The model that plays the user.")
    parallel: Flag = Field(False, description="Run several cases at once.")
    max_concurrency: PositiveCount = Field(4, description="How many cases run at once when parallel.")
    timeout: Seconds = Field(300.0, description="Seconds the agent may take for one case, all turns together.")
    criterion_timeout: Seconds = Field(
        120.0, description="Seconds one asynchronous criterion, or one check, may take for one case."
    )
    fixture_timeout: Seconds = Field(
        60.0, description="Seconds one fixture may take to be set up, and to be torn down; also one asynchronous hook."
    )
    retries: Count = Field(
        0, description="How often a case is run again after the agent raised; never after an answer."
    )
    trials: PositiveCount = Field(1, description="How often each case is run; it passes when every trial passes.")
    min_pass_rate: Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)] = Field(
        1.0, description="The least share of passed cases for the gate (exit code 0)."
    )
    verbose: Flag = Field(False, description="Print each case as it ends.")
    mock_mode: Flag = Field(False, description="Run no agent: replay each case's expectations. Never passes the gate.")
    judge: JudgeSettings = Field(default_factory=JudgeSettings, description="Address, limits and prices of the judges.")
    judge_cache: NonEmptyText | None = Field(
        None, description="File that keeps verdicts, so that none is paid for twice."
    )
    replay_only: Flag = Field(False, description="Take verdicts from judge_cache only; a missing one is an error.")
    include_judge_io: Flag = Field(False, description="Keep prompts and raw replies of judges in the JSON report.")
    judge_controls: list[JudgeControl] = Field(
        [], description="Known good and bad answers; a judge that gets one wrong turns its criterion into an error."
    )
    reporter: ReporterConfig = Field(default_factory=ReporterConfig, description="Which reports are written.")

    @model_validator(mode="after")
    def _replay_has_a_cache(self) -> Self:
        if self.replay_only and self.judge_cache is None:
            raise ValueError("replay_only needs judge_cache, the file to take the verdicts from")
        return self

    @model_validator(mode="after")
    def _one_agent(self) -> Self:
        if self.endpoint is not None and (self.agent is not None or self.agent_options is not None):
            raise ValueError("give endpoint (an agent behind HTTP), or agent with its agent_options, not both")
        twice = sorted(self.targets.keys() & self.endpoints.keys())
        if twice:
            raise ValueError(f"{twice[0]!r} is the name of a target and of an endpoint; names are unique")
        return self

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """The config in a JSON file.

        Raises:
            LoadError: The file cannot be used; the message lists every problem in it.
        """
        return read_model(path, cls, "config")

    def to_file(self, path: Path | str) -> None:
        """Writes the config as JSON; what nobody set is left out."""
        write_text(path, model_text(self))

    @classmethod
    def default(cls) -> Self:
        """Exact tool trajectory and a judged comparison with the expected answer."""
        return cls(
            criteria=CriteriaConfig(
                trajectory=CriterionConfig.trajectory(), response_match=CriterionConfig.response_match()
            )
        )

    @classmethod
    def strict(cls) -> Self:
        """Exact tool trajectory with arguments, and two judged criteria with a high bar."""
        return cls(
            criteria=CriteriaConfig(
                trajectory=CriterionConfig.trajectory(check_args=True),
                response_match=CriterionConfig.response_match(threshold=0.9),
                llm_judge=CriterionConfig.llm_judge(threshold=0.9, num_samples=5),
            )
        )

    @classmethod
    def relaxed(cls) -> Self:
        """Tools in order with others between them, and a judged comparison with a low bar."""
        return cls(
            criteria=CriteriaConfig(
                trajectory=CriterionConfig.trajectory(threshold=0.8, match_type=MatchType.IN_ORDER),
                response_match=CriterionConfig.response_match(threshold=0.6),
            )
        )

    def get_criterion_config(self, name: str) -> BaseCriterionConfig | None:
        """The settings in a slot, or None when the slot is empty.

        Raises:
            UsageError: There is no such slot.
        """
        config: BaseCriterionConfig | None = getattr(self.criteria, _slot_name(name))
        return config

    def enable_criterion(self, name: str, config: BaseCriterionConfig | None = None) -> None:
        """Switches a criterion on, with ``config``, with the settings it has, or with its defaults.

        Raises:
            UsageError: There is no such slot.
        """
        slot = _slot_name(name)
        present = self.get_criterion_config(slot)
        if config is None:
            config = present.model_copy(update={"enabled": True}) if present else _factory_default(slot)
        setattr(self.criteria, slot, config)

    def disable_criterion(self, name: str) -> None:
        """Switches a criterion off and keeps its settings; an empty slot stays empty.

        Raises:
            UsageError: There is no such slot.
        """
        present = self.get_criterion_config(name)
        if present is not None:
            setattr(self.criteria, name, present.model_copy(update={"enabled": False}))

    def with_rubrics(self, rubrics: Sequence[Rubric]) -> Self:
        """A deep copy whose ``rubric_based`` slot grades by ``rubrics``."""
        copy = self.model_copy(deep=True)
        present = copy.criteria.rubric_based
        settings = present.model_dump(exclude_unset=True) if present else {}
        copy.criteria.rubric_based = RubricBasedConfig(**settings | {"rubrics": list(rubrics), "enabled": True})
        return copy


def _slot_name(name: str) -> str:
    if name in SLOTS:
        return name
    near = CriteriaConfig.other_names.get(name) or did_you_mean(name, list(SLOTS))
    hint = f"; did you mean {near!r}?" if near else ""
    raise UsageError(f"unknown criterion {name!r}{hint} (known: {', '.join(SLOTS)})")


def _factory_default(slot: str) -> BaseCriterionConfig:
    needs_more = {"contains_keywords", "rubric_based", "budget", "simulation_goals"}
    if slot in needs_more:
        return SLOTS[slot]()
    config: BaseCriterionConfig = getattr(CriterionConfig, slot)()
    return config
