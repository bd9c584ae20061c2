"""What an eval set file may say: cases, turns, and what is expected of each."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    RootModel,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from agentflow_eval._files import model_text, printable, read_model, write_text
from agentflow_eval._values import matcher_problem, mismatch
from agentflow_eval.config import BudgetConfig, CriteriaConfig, Keywords, NonEmptyText, PositiveCount, Seconds, Share
from agentflow_eval.errors import LoadError, LoadWarning, Problem

_random = random.Random()
"""A source of its own: who seeds the shared one gets new ids all the same, and the sequence that was asked for."""


def _random_id() -> str:
    # uuid.uuid4() costs ten times as much, and large sets make one for every turn.
    bits = _random.getrandbits(128)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


class _OrNull:
    """Marks a field that may be null in a file."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.nullable_schema(handler(source))


class _Explained:
    """Marks a field whose every validation error is told in one sentence."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="says_it_all", custom_error_message=self._message
        )


class MessageContent(BaseModel):
    """One message: who says what."""

    model_config = ConfigDict(extra="forbid")

    role: NonEmptyText = Field(description="user, assistant, system or tool.")
    content: Annotated[str | list[dict[str, Any]], _Explained("must be text or a list of content blocks (objects)")] = (
        Field(description='Text, or content blocks such as {"type": "text", "text": "..."}.')
    )
    metadata: dict[str, Any] = Field(default_factory=dict, description="Free-form.")

    @classmethod
    def user(cls, text: str) -> Self:
        """What the user says."""
        return cls(role="user", content=text)

    @classmethod
    def assistant(cls, text: str) -> Self:
        """What the agent says."""
        return cls(role="assistant", content=text)

    def get_text(self) -> str:
        """The text of the message; several text blocks are joined by a space."""
        if isinstance(self.content, str):
            return self.content
        return " ".join(str(block["text"]) for block in self.content if isinstance(block.get("text"), str))


class ToolCall(BaseModel):
    """A call of a tool: expected, or recorded from a run."""

    model_config = ConfigDict(extra="forbid")

    name: NonEmptyText = Field(description="The tool's name.")
    args: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments by name. Expected and empty: any arguments are accepted. Values may be matchers.",
    )
    call_id: str | None = Field(None, description="The runtime's id of the call; criteria never compare it.")
    result: Any = Field(None, description="What a recorded call returned.")
    error: str | None = Field(None, description="Why a recorded call failed, None when it did not.")

    def matches(self, other: ToolCall, check_args: bool = True, check_call_id: bool = False) -> bool:
        """Whether ``other`` is the call that this one expects.

        Arguments are compared only when this call states some: with ``args={}`` it accepts any.
        """
        if self.name != other.name or (check_call_id and self.call_id != other.call_id):
            return False
        return not (check_args and self.args) or mismatch(self.args, other.args) is None


class StepType(StrEnum):
    """What a recorded step is."""

    NODE = "node"
    """A graph node was entered."""
    TOOL = "tool"
    """A tool was called."""
    MESSAGE = "message"
    """A message step."""
    CONDITIONAL = "conditional"
    """A conditional edge was decided."""


@dataclass(slots=True, config=ConfigDict(extra="forbid"))
class TrajectoryStep:
    """One step of a recorded run.

    A validating dataclass with slots, not a model: a run has many of them, and a model takes three times the memory.

    Attributes:
        step_type: What the step is.
        name: Of the node, tool or edge.
        args: Arguments of a tool call.
        timestamp: Unix time in seconds, None when not recorded.
        metadata: Anything else that is known about the step.
    """

    step_type: StepType
    name: str
    args: dict[str, Any] = field(default_factory=dict)
    timestamp: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def node(cls, name: str, timestamp: float | None = None, **metadata: Any) -> Self:
        """A visit of a node."""
        return cls(step_type=StepType.NODE, name=name, timestamp=timestamp, metadata=metadata)

    @classmethod
    def tool(
        cls, name: str, args: dict[str, Any] | None = None, timestamp: float | None = None, **metadata: Any
    ) -> Self:
        """A call of a tool."""
        return cls(step_type=StepType.TOOL, name=name, args=args or {}, timestamp=timestamp, metadata=metadata)

    def model_dump(self, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
        """The step as a dictionary, as models give it."""
        dumped: dict[str, Any] = RootModel[TrajectoryStep](self).model_dump(mode=mode)
        return dumped

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """A copy with some values replaced, as models give it."""
        return replace(self, **update or {})


class SessionInput(BaseModel):
    """Who talks to the agent, and the state the conversation starts with."""

    model_config = ConfigDict(extra="forbid")

    app_name: str = Field("", description="Name of the application.")
    user_id: str = Field("test_user", description="Who talks to the agent.")
    state: dict[str, Any] = Field(default_factory=dict, description="Initial state; every run gets its own deep copy.")
    config: dict[str, Any] = Field(default_factory=dict, description="Merged into the runtime's run config.")


class Check(BaseModel):
    """The name of a check and the bar for its score; in a file the name alone will do."""

    model_config = ConfigDict(extra="forbid")

    name: NonEmptyText = Field(description="As the config's checks name it.")
    threshold: Share | None = Field(
        None, description="The least score that passes, 0..1. Left out: 1, and a result object decides by itself."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if isinstance(value, (dict, Check)):
            return value
        if isinstance(value, str):
            return {"name": value}
        message = "must be the name of a check, or an object with name and threshold"
        raise PydanticCustomError("says_it_all", "{message}", {"message": message})

    @model_serializer(mode="wrap")
    def _as_name(self, handler: SerializerFunctionWrapHandler) -> Any:
        return self.name if self.threshold is None else handler(self)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{"type": "string", "minLength": 1, "description": "The name alone."}, described]}


def _each_once(names: list[Any]) -> list[Any]:
    """Refuses a check or a fixture that is named twice in one list."""
    seen: dict[str, int] = {}
    for index, item in enumerate(names):
        name = item.name if isinstance(item, Check) else item
        first = seen.setdefault(name, index)
        if first != index:
            message = f"{name!r} is named at [{first}] already; keep one of the two"
            raise PydanticCustomError("says_it_all", "{message}", {"message": message, "inner": f"[{index}]"})
    return names


class Invocation(BaseModel):
    """One turn: what the user says and what is expected of the agent.

    An expectation that is left out (or null) is not checked; one that is given and empty must be empty.
    """

    model_config = ConfigDict(extra="forbid")

    invocation_id: NonEmptyText = Field(default_factory=_random_id, description="Names the turn.")
    user_content: MessageContent = Field(description="What the user says.")
    expected_tool_trajectory: Annotated[list[ToolCall], _OrNull()] = Field(
        default_factory=list, description="Tool calls of this turn, in order."
    )
    expected_node_order: Annotated[list[str], _OrNull()] = Field(
        default_factory=list, description="Node visits of this turn, in order."
    )
    expected_intermediate_responses: list[MessageContent] = Field(default_factory=list, description="Reserved.")
    expected_final_response: MessageContent | None = Field(None, description="The answer to this turn.")
    expected_keywords: Keywords = Field(
        default_factory=list, description="Keywords that this turn's answer must contain."
    )
    forbidden_keywords: Keywords = Field(
        default_factory=list, description="Keywords that this turn's answer must not contain."
    )
    checks: Annotated[list[Check], AfterValidator(_each_once)] = Field(
        default_factory=list, description="Checks of this turn: names, or objects with name and threshold."
    )
    criteria: CriteriaConfig | None = Field(
        None, description="Slots that replace the case's and the config's for this turn."
    )

    @model_validator(mode="after")
    def _absent_and_matchers(self) -> Self:
        """Null counts as left out, and matchers in expected arguments make sense."""
        values = self.__dict__
        for name in ("expected_tool_trajectory", "expected_node_order"):
            if values[name] is None:
                values[name] = []
                self.__pydantic_fields_set__.discard(name)
        if values["expected_final_response"] is None:
            self.__pydantic_fields_set__.discard("expected_final_response")
        for index, call in enumerate(values["expected_tool_trajectory"]):
            problem = matcher_problem(call.args) if call.args else None
            if problem:
                inner, message = problem
                place = f".expected_tool_trajectory[{index}].{inner}"
                raise PydanticCustomError("says_it_all", "{message}", {"message": message, "inner": place})
        return self

    @property
    def expected_tools(self) -> list[ToolCall] | None:
        """The expected tool calls, or None when none are stated."""
        given = self.expected_tool_trajectory or "expected_tool_trajectory" in self.model_fields_set
        return self.expected_tool_trajectory if given else None

    @property
    def expected_nodes(self) -> list[str] | None:
        """The expected node visits, or None when none are stated."""
        given = self.expected_node_order or "expected_node_order" in self.model_fields_set
        return self.expected_node_order if given else None

    @property
    def expected_text(self) -> str | None:
        """The text of the expected answer as a run would record it, or None when none is stated."""
        return None if self.expected_final_response is None else printable(self.expected_final_response.get_text())

    @classmethod
    def simple(
        cls,
        user_query: str,
        expected_response: str | None = None,
        expected_tools: Sequence[ToolCall] | None = None,
        expected_node_order: Sequence[str] | None = None,
    ) -> Self:
        """A turn from plain values; None leaves an expectation out."""
        values: dict[str, Any] = {"user_content": MessageContent.user(user_query)}
        if expected_response is not None:
            values["expected_final_response"] = MessageContent.assistant(expected_response)
        if expected_tools is not None:
            values["expected_tool_trajectory"] = list(expected_tools)
        if expected_node_order is not None:
            values["expected_node_order"] = list(expected_node_order)
        return cls(**values)


class ConversationScenario(BaseModel):
    """What a simulated user wants, instead of fixed turns."""

    model_config = ConfigDict(extra="forbid")

    scenario_id: str = Field("", description="Names the scenario.")
    description: str = Field("", description="The user's situation.")
    starting_prompt: NonEmptyText = Field(description="The user's first message, word for word.")
    conversation_plan: str = Field("", description="What the user does, step by step.")
    goals: list[NonEmptyText] = Field(default_factory=list, description="What the user wants to have reached.")
    max_turns: PositiveCount = Field(10, description="Messages of the user at most.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="Free-form.")


class EvalCase(BaseModel):
    """One conversation with the agent and what is expected of it."""

    model_config = ConfigDict(extra="forbid")

    eval_id: NonEmptyText = Field(default_factory=_random_id, description="Unique in its set.")
    name: str = Field("", description="Label in reports.")
    description: str = Field("", description="What the case is about.")
    conversation: list[Invocation] = Field(default_factory=list, description="The turns.")
    session_input: SessionInput = Field(default_factory=SessionInput, description="User and initial state.")
    tags: list[NonEmptyText] = Field(default_factory=list, description="For selecting cases.")
    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Free-form; context and reference_facts are read by judges."
    )
    criteria: CriteriaConfig | None = Field(None, description="Slots that replace the config's for this case.")
    expected_keywords: Keywords = Field(
        default_factory=list, description="Keywords that the final answer must contain."
    )
    forbidden_keywords: Keywords = Field(default_factory=list, description="Keywords that no answer may contain.")
    target: NonEmptyText | None = Field(
        None, description="The agent of this case, as the config's targets name it. Left out: the run's agent."
    )
    fixtures: Annotated[list[NonEmptyText], AfterValidator(_each_once)] = Field(
        default_factory=list,
        description="What the case needs, as the config's fixtures name it: set up in this order before the agent "
        "runs, torn down in reverse order after everything.",
    )
    checks: Annotated[list[Check], AfterValidator(_each_once)] = Field(
        default_factory=list,
        description="Functions that check the whole run, as the config's checks name them: names, or objects with "
        "name and threshold.",
    )
    timeout: Seconds | None = Field(None, description="Seconds for this case instead of the config's.")
    trials: PositiveCount | None = Field(None, description="Runs of this case instead of the config's.")
    skip: NonEmptyText | None = Field(None, description="The reason why the case is not run.")
    budget: BudgetConfig | None = Field(None, description="Limits of this case; short for criteria.budget.")
    scenario: ConversationScenario | None = Field(None, description="A simulated user, instead of a conversation.")
    on_turn_error: Literal["stop", "continue"] = Field(
        "stop", description="Whether the turns after a broken one are still played."
    )

    @classmethod
    def single_turn(
        cls,
        eval_id: str,
        user_query: str,
        expected_response: str | None = None,
        expected_tools: Sequence[ToolCall] | None = None,
        expected_node_order: Sequence[str] | None = None,
        name: str = "",
        description: str = "",
    ) -> Self:
        """A case of one turn; None leaves an expectation out."""
        turn = Invocation.simple(user_query, expected_response, expected_tools, expected_node_order)
        return cls(eval_id=eval_id, conversation=[turn], **_given(name=name, description=description))

    @classmethod
    def multi_turn(
        cls,
        eval_id: str,
        conversation: Sequence[tuple[str, str]],
        expected_tools: Sequence[ToolCall] | None = None,
        name: str = "",
        description: str = "",
    ) -> Self:
        """A case of ``(user_query, expected_response)`` turns; ``expected_tools`` go to the first turn."""
        turns = [
            Invocation.simple(query, response, expected_tools if index == 0 else None)
            for index, (query, response) in enumerate(conversation)
        ]
        return cls(eval_id=eval_id, conversation=turns, **_given(name=name, description=description))


def _given(**texts: str) -> dict[str, Any]:
    return {key: text for key, text in texts.items() if text}


class EvalSet(BaseModel):
    """A collection of cases that are run together."""

    model_config = ConfigDict(
        extra="forbid",
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
        ser_json_inf_nan="strings",
    )

    schema_: str | None = Field(None, alias="$schema", description="The JSON Schema of this file, for editors.")
    eval_set_id: NonEmptyText = Field(default_factory=_random_id, description="Names the set and its reports.")
    name: str = Field("", description="Label in reports.")
    description: str = Field("", description="What the set is about.")
    eval_cases: list[EvalCase] = Field(default_factory=list, description="The cases.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="Free-form.")

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """The eval set in a JSON file.

        Ids that the file leaves out are the same on every load: ``case_1``, ``turn_1``, the file's name for the set.

        Raises:
            MissingFileError: The file does not exist.
            LoadError: The file cannot be used; the message lists every problem in it.
        """
        eval_set = read_model(path, cls, "eval set")
        _name_the_unnamed(eval_set, Path(path))
        problems = eval_set.problems()
        if problems:
            raise LoadError(str(path), problems)
        for first, second in _ids_that_differ_in_case(eval_set):
            warnings.warn(f"{path}: ids {first!r} and {second!r} differ only in case", LoadWarning, stacklevel=2)
        return eval_set

    def to_file(self, path: Path | str) -> None:
        """Writes the set as JSON; generated ids and untouched defaults are left out."""
        write_text(path, model_text(self))

    def save(self, path: Path | str) -> None:
        """Same as `to_file`."""
        self.to_file(path)

    def problems(self) -> list[Problem]:
        """What keeps the set from being run: ids that occur twice, cases without a turn."""
        problems: list[Problem] = []
        seen: dict[str, int] = {}
        for index, case in enumerate(self.eval_cases):
            place = f"eval_cases[{index}]"
            first = seen.setdefault(case.eval_id, index)
            if first != index:
                message = f'"{case.eval_id}" is already the id of eval_cases[{first}]; ids are unique in a set'
                problems.append(Problem(f"{place}.eval_id", message))
            if not case.conversation and case.scenario is None:
                problems.append(Problem(f"{place}.conversation", "must have at least one turn, got an empty list"))
            if case.budget is not None and case.criteria is not None and "budget" in case.criteria.model_fields_set:
                problems.append(Problem(f"{place}.budget", "criteria.budget says it too; keep one of the two"))
            if case.conversation and case.scenario is not None:
                problems.append(Problem(f"{place}.scenario", "a case has a conversation or a scenario, not both"))
            problems += _checked_twice(case, place)
        return problems

    def add_case(self, case: EvalCase) -> None:
        """Appends a case."""
        self.eval_cases.append(case)

    def get_case(self, eval_id: str) -> EvalCase | None:
        """The case with this id, or None."""
        return next((case for case in self.eval_cases if case.eval_id == eval_id), None)

    def filter_by_tags(self, tags: Sequence[str]) -> list[EvalCase]:
        """The cases that carry all of the tags."""
        wanted = {tags} if isinstance(tags, str) else set(tags)
        return [case for case in self.eval_cases if wanted <= set(case.tags)]

    def __len__(self) -> int:
        return len(self.eval_cases)

    def __iter__(self) -> Iterator[EvalCase]:  # type: ignore[override]  # documented: iterates over cases, not fields
        return iter(self.eval_cases)


def _checked_twice(case: EvalCase, place: str) -> Iterator[Problem]:
    """A check of the whole case that a turn names too: one name is one row of the report."""
    names = {check.name for check in case.checks}
    for number, turn in enumerate(case.conversation if names else ()):
        for index, check in enumerate(turn.checks):
            if check.name in names:
                message = f"{check.name!r} checks the whole case already; keep one of the two"
                yield Problem(f"{place}.conversation[{number}].checks[{index}]", message)


def _name_the_unnamed(eval_set: EvalSet, path: Path) -> None:
    # Written to __dict__, so that these ids count as generated and are not written back.
    if "eval_set_id" not in eval_set.model_fields_set:
        eval_set.__dict__["eval_set_id"] = path.name.split(".")[0] or "eval_set"
    for number, case in enumerate(eval_set.eval_cases, start=1):
        if "eval_id" not in case.model_fields_set:
            case.__dict__["eval_id"] = f"case_{number}"
        for turn_number, turn in enumerate(case.conversation, start=1):
            if "invocation_id" not in turn.model_fields_set:
                turn.__dict__["invocation_id"] = f"turn_{turn_number}"


def _ids_that_differ_in_case(eval_set: EvalSet) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for case in eval_set.eval_cases:
        first = seen.setdefault(case.eval_id.casefold(), case.eval_id)
        if first != case.eval_id:
            yield first, case.eval_id
