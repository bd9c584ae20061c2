"""Declarative evaluation of AI agents: typed JSON in, verdicts that can be trusted out.

Every public name is imported from here; each is loaded when it is first used, so that importing the package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentflow_eval.adapters import AgentShape as AgentShape
    from agentflow_eval.adapters import Session as Session
    from agentflow_eval.adapters import Target as Target
    from agentflow_eval.adapters import Turn as Turn
    from agentflow_eval.adapters import adapt as adapt
    from agentflow_eval.adapters.agentflow import create_eval_app as create_eval_app
    from agentflow_eval.adapters.agentflow import make_trajectory_callback as make_trajectory_callback
    from agentflow_eval.adapters.executionkit import KitTarget as KitTarget
    from agentflow_eval.adapters.tulip import as_eval_target as as_eval_target
    from agentflow_eval.builder import EvalSetBuilder as EvalSetBuilder
    from agentflow_eval.collector import ToolRecord as ToolRecord
    from agentflow_eval.collector import TrajectoryCollector as TrajectoryCollector
    from agentflow_eval.config import DEFAULT_JUDGE_MODEL as DEFAULT_JUDGE_MODEL
    from agentflow_eval.config import AgentOptions as AgentOptions
    from agentflow_eval.config import BaseCriterionConfig as BaseCriterionConfig
    from agentflow_eval.config import BudgetConfig as BudgetConfig
    from agentflow_eval.config import ContainsKeywordsConfig as ContainsKeywordsConfig
    from agentflow_eval.config import CriteriaConfig as CriteriaConfig
    from agentflow_eval.config import CriterionConfig as CriterionConfig
    from agentflow_eval.config import EndpointResponse as EndpointResponse
    from agentflow_eval.config import EvalConfig as EvalConfig
    from agentflow_eval.config import ExactMatchConfig as ExactMatchConfig
    from agentflow_eval.config import FactualAccuracyConfig as FactualAccuracyConfig
    from agentflow_eval.config import HallucinationConfig as HallucinationConfig
    from agentflow_eval.config import HttpEndpoint as HttpEndpoint
    from agentflow_eval.config import JudgeControl as JudgeControl
    from agentflow_eval.config import JudgeSettings as JudgeSettings
    from agentflow_eval.config import LLMJudgeConfig as LLMJudgeConfig
    from agentflow_eval.config import MatchType as MatchType
    from agentflow_eval.config import NodeOrderConfig as NodeOrderConfig
    from agentflow_eval.config import ReporterConfig as ReporterConfig
    from agentflow_eval.config import ResponseMatchConfig as ResponseMatchConfig
    from agentflow_eval.config import RougeMatchConfig as RougeMatchConfig
    from agentflow_eval.config import Rubric as Rubric
    from agentflow_eval.config import RubricBasedConfig as RubricBasedConfig
    from agentflow_eval.config import SafetyConfig as SafetyConfig
    from agentflow_eval.config import SimulationGoalsConfig as SimulationGoalsConfig
    from agentflow_eval.config import ToolNameMatchConfig as ToolNameMatchConfig
    from agentflow_eval.config import TrajectoryConfig as TrajectoryConfig
    from agentflow_eval.config import UserSimulatorConfig as UserSimulatorConfig
    from agentflow_eval.criteria import CRITERIA as CRITERIA
    from agentflow_eval.criteria import BaseCriterion as BaseCriterion
    from agentflow_eval.criteria import SyncCriterion as SyncCriterion
    from agentflow_eval.criteria.budget import BudgetCriterion as BudgetCriterion
    from agentflow_eval.criteria.contains_keywords import ContainsKeywordsCriterion as ContainsKeywordsCriterion
    from agentflow_eval.criteria.exact_match import ExactMatchCriterion as ExactMatchCriterion
    from agentflow_eval.criteria.factual_accuracy import FactualAccuracyCriterion as FactualAccuracyCriterion
    from agentflow_eval.criteria.hallucination import HallucinationCriterion as HallucinationCriterion
    from agentflow_eval.criteria.llm_judge import LLMJudgeCriterion as LLMJudgeCriterion
    from agentflow_eval.criteria.node_order import NodeOrderMatchCriterion as NodeOrderMatchCriterion
    from agentflow_eval.criteria.response_match import ResponseMatchCriterion as ResponseMatchCriterion
    from agentflow_eval.criteria.rouge_match import RougeMatchCriterion as RougeMatchCriterion
    from agentflow_eval.criteria.rubric_based import RubricBasedCriterion as RubricBasedCriterion
    from agentflow_eval.criteria.safety import SafetyCriterion as SafetyCriterion
    from agentflow_eval.criteria.simulation_goals import SimulationGoalsCriterion as SimulationGoalsCriterion
    from agentflow_eval.criteria.tool_name_match import ToolNameMatchCriterion as ToolNameMatchCriterion
    from agentflow_eval.criteria.trajectory import TrajectoryMatchCriterion as TrajectoryMatchCriterion
    from agentflow_eval.dataset import Check as Check
    from agentflow_eval.dataset import ConversationScenario as ConversationScenario
    from agentflow_eval.dataset import EvalCase as EvalCase
    from agentflow_eval.dataset import EvalSet as EvalSet
    from agentflow_eval.dataset import Invocation as Invocation
    from agentflow_eval.dataset import MessageContent as MessageContent
    from agentflow_eval.dataset import SessionInput as SessionInput
    from agentflow_eval.dataset import StepType as StepType
    from agentflow_eval.dataset import ToolCall as ToolCall
    from agentflow_eval.dataset import TrajectoryStep as TrajectoryStep
    from agentflow_eval.engine.checks import CheckContext as CheckContext
    from agentflow_eval.engine.fixtures import FixtureContext as FixtureContext
    from agentflow_eval.engine.hooks import EvalHooks as EvalHooks
    from agentflow_eval.engine.hooks import RunEvent as RunEvent
    from agentflow_eval.errors import AgentError as AgentError
    from agentflow_eval.errors import AgentflowEvalError as AgentflowEvalError
    from agentflow_eval.errors import AgentImportError as AgentImportError
    from agentflow_eval.errors import JudgeError as JudgeError
    from agentflow_eval.errors import LoadError as LoadError
    from agentflow_eval.errors import LoadWarning as LoadWarning
    from agentflow_eval.errors import MissingExtraError as MissingExtraError
    from agentflow_eval.errors import MissingFileError as MissingFileError
    from agentflow_eval.errors import ReportError as ReportError
    from agentflow_eval.errors import TargetError as TargetError
    from agentflow_eval.errors import UsageError as UsageError
    from agentflow_eval.evaluator import AgentEvaluator as AgentEvaluator
    from agentflow_eval.evaluator import EvaluationRunner as EvaluationRunner
    from agentflow_eval.judge import Judge as Judge
    from agentflow_eval.judge import JudgeReply as JudgeReply
    from agentflow_eval.judge import JudgeRequest as JudgeRequest
    from agentflow_eval.judge.providers import provider_from_env as provider_from_env
    from agentflow_eval.presets import EvalPresets as EvalPresets
    from agentflow_eval.reporters import BaseReporter as BaseReporter
    from agentflow_eval.reporters import ConsoleReporter as ConsoleReporter
    from agentflow_eval.reporters import HTMLReporter as HTMLReporter
    from agentflow_eval.reporters import JSONReporter as JSONReporter
    from agentflow_eval.reporters import JUnitXMLReporter as JUnitXMLReporter
    from agentflow_eval.reporters import ReporterManager as ReporterManager
    from agentflow_eval.reporters import ReporterOutput as ReporterOutput
    from agentflow_eval.reporters import TemplateReporter as TemplateReporter
    from agentflow_eval.reporters import print_report as print_report
    from agentflow_eval.result import CriterionResult as CriterionResult
    from agentflow_eval.result import CriterionStats as CriterionStats
    from agentflow_eval.result import ErrorKind as ErrorKind
    from agentflow_eval.result import EvalCaseResult as EvalCaseResult
    from agentflow_eval.result import EvalReport as EvalReport
    from agentflow_eval.result import EvalSummary as EvalSummary
    from agentflow_eval.result import ExecutionResult as ExecutionResult
    from agentflow_eval.result import NodeDetail as NodeDetail
    from agentflow_eval.result import NodeResponse as NodeResponse
    from agentflow_eval.result import Outcome as Outcome
    from agentflow_eval.result import TokenUsage as TokenUsage
    from agentflow_eval.result import TurnResult as TurnResult
    from agentflow_eval.simulation import BatchSimulator as BatchSimulator
    from agentflow_eval.simulation import SimulationResult as SimulationResult
    from agentflow_eval.simulation import UserSimulator as UserSimulator

_MODULES: dict[str, str] = {
    "adapters": "AgentShape Session Target Turn adapt",
    "adapters.agentflow": "create_eval_app make_trajectory_callback",
    "adapters.executionkit": "KitTarget",
    "adapters.tulip": "as_eval_target",
    "builder": "EvalSetBuilder",
    "collector": "ToolRecord TrajectoryCollector",
    "config": "DEFAULT_JUDGE_MODEL AgentOptions BaseCriterionConfig BudgetConfig ContainsKeywordsConfig CriteriaConfig "
    "CriterionConfig EndpointResponse EvalConfig ExactMatchConfig FactualAccuracyConfig HallucinationConfig "
    "HttpEndpoint JudgeControl JudgeSettings LLMJudgeConfig MatchType NodeOrderConfig ReporterConfig "
    "ResponseMatchConfig RougeMatchConfig Rubric RubricBasedConfig SafetyConfig SimulationGoalsConfig "
    "ToolNameMatchConfig TrajectoryConfig UserSimulatorConfig",
    "criteria": "CRITERIA BaseCriterion SyncCriterion",
    "criteria.budget": "BudgetCriterion",
    "criteria.contains_keywords": "ContainsKeywordsCriterion",
    "criteria.exact_match": "ExactMatchCriterion",
    "criteria.factual_accuracy": "FactualAccuracyCriterion",
    "criteria.hallucination": "HallucinationCriterion",
    "criteria.llm_judge": "LLMJudgeCriterion",
    "criteria.node_order": "NodeOrderMatchCriterion",
    "criteria.response_match": "ResponseMatchCriterion",
    "criteria.rouge_match": "RougeMatchCriterion",
    "criteria.rubric_based": "RubricBasedCriterion",
    "criteria.safety": "SafetyCriterion",
    "criteria.simulation_goals": "SimulationGoalsCriterion",
    "criteria.tool_name_match": "ToolNameMatchCriterion",
    "criteria.trajectory": "TrajectoryMatchCriterion",
    "dataset": "Check ConversationScenario EvalCase EvalSet Invocation MessageContent SessionInput StepType ToolCall "
    "TrajectoryStep",
    "engine.checks": "CheckContext",
    "engine.fixtures": "FixtureContext",
    "engine.hooks": "EvalHooks RunEvent",
    "errors": "AgentError AgentImportError AgentflowEvalError JudgeError LoadError LoadWarning MissingExtraError "
    "MissingFileError ReportError TargetError UsageError",
    "evaluator": "AgentEvaluator EvaluationRunner",
    "judge": "Judge JudgeReply JudgeRequest",
    "judge.providers": "provider_from_env",
    "presets": "EvalPresets",
    "reporters": "BaseReporter ConsoleReporter HTMLReporter JSONReporter JUnitXMLReporter ReporterManager "
    "ReporterOutput TemplateReporter print_report",
    "result": "CriterionResult CriterionStats ErrorKind EvalCaseResult EvalReport EvalSummary ExecutionResult "
    "NodeDetail NodeResponse Outcome TokenUsage TurnResult",
    "simulation": "BatchSimulator SimulationResult UserSimulator",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
