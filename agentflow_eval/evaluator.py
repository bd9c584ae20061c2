"""The front door: an agent, an eval set and a config in, a scored report out."""

from __future__ import annotations

import asyncio
import platform
import secrets
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agentflow_eval._files import digest, safe_name
from agentflow_eval.adapters import Target, adapt, release_connections
from agentflow_eval.adapters._load import import_agent
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import EvalConfig, JudgedConfig
from agentflow_eval.criteria import BaseCriterion, build
from agentflow_eval.dataset import EvalCase, EvalSet
from agentflow_eval.engine import _loop
from agentflow_eval.engine._contain import contained
from agentflow_eval.engine._controls import distrusted
from agentflow_eval.engine.case import Plan, run_case, unrun
from agentflow_eval.engine.hooks import EvalHooks, run_watched
from agentflow_eval.engine.journal import Journal
from agentflow_eval.engine.names import Names, unknown_names
from agentflow_eval.engine.schedule import Progress, run_cases
from agentflow_eval.errors import LoadError, Problem, ReportError, UsageError
from agentflow_eval.judge import Judge, JudgeCache, Judges, as_judge, check_prompt
from agentflow_eval.result import ErrorKind, EvalCaseResult, EvalReport, Outcome

if TYPE_CHECKING:
    from agentflow_eval.reporters import ReporterOutput

_RUNTIMES = (
    "langgraph",
    "langchain-core",
    "10xgraph",
    "tulip-agents",
    "agno",
    "executionkit",
    "pydantic-ai-slim",
    "openai-agents",
)


class AgentEvaluator:
    """Runs an agent through eval sets and scores what it did.

    Args:
        graph: The agent: anything that `adapt` accepts. May be left out in a mock run, and when the config has an
            ``endpoint``.
        collector: The collector that a graph was compiled with, for runtimes that need one.
        config: The criteria and settings; None is `EvalConfig.default`.
        judge: The model that judges, or an async function of the prompt; None takes the models that the config names.
        criteria: Criteria of your own, scored after the config's.
        reporters: Reporters of your own: objects with ``render(report) -> str``.
        targets: Name -> agent, for cases that name their ``target``; these and the next two add to the config's.
        checks: Name -> function of a `CheckContext`, for cases and turns that name ``checks``.
        fixtures: Name -> function or context manager, for cases that name ``fixtures``.
        hooks: Functions of yours that are told how a run goes.

    Attributes:
        criteria: The criteria of the config and your own; may be changed before a run.
        report: The report of the latest run, also of one that was interrupted; None before the first.
        reporter_output: What the reporters of the latest run wrote; None when they are switched off.
        stopped: Whether `stop` was called during the latest run.

    Raises:
        TargetError: The agent cannot be driven.
        UsageError: An argument makes no sense.
    """

    def __init__(
        self,
        graph: Any = None,
        collector: TrajectoryCollector | None = None,
        config: EvalConfig | None = None,
        *,
        judge: Judge | Callable[[Any], Awaitable[Any]] | None = None,
        criteria: Sequence[BaseCriterion] = (),
        reporters: Sequence[Any] = (),
        targets: Mapping[str, Any] | None = None,
        checks: Mapping[str, Any] | None = None,
        fixtures: Mapping[str, Any] | None = None,
        hooks: EvalHooks | None = None,
    ) -> None:
        given: object = collector
        if given is not None and not isinstance(given, TrajectoryCollector):
            kind = type(given).__name__
            raise UsageError(f"the second argument is the TrajectoryCollector, got {kind}; name it: config={kind}(...)")
        wrong = [type(criterion).__name__ for criterion in criteria if not isinstance(criterion, BaseCriterion)]
        if wrong:
            raise UsageError(f"criteria takes BaseCriterion objects, got {wrong[0]}; the slots go into config=")
        watcher: object = hooks
        if watcher is not None and not isinstance(watcher, EvalHooks):
            raise UsageError(f"hooks takes an EvalHooks, got {type(watcher).__name__}")
        self.graph = graph
        self.collector = collector
        self.config = config or EvalConfig.default()
        self.extra_criteria = list(criteria)
        self.judges = _judges(self.config, judge)
        self.criteria: list[BaseCriterion] = [*build(self.config.criteria, self.judges), *self.extra_criteria]
        self.reporters = list(reporters)
        self.hooks = hooks
        self.report: EvalReport | None = None
        self.reporter_output: ReporterOutput | None = None
        self.stopped = False
        self.names = Names(self.config, targets=targets, checks=checks, fixtures=fixtures)
        self._target = self._adapted(graph)
        self._run_id = ""
        self._progress: Progress | None = None

    def _adapted(self, graph: Any) -> Target | None:
        if self.config.mock_mode:
            return None
        graph = self.config.endpoint if graph is None else graph
        if graph is None:
            if self.names.targets:
                return None
            raise UsageError("no agent given; only a config with mock_mode runs without one")
        options = self.config.agent_options
        return adapt(graph, fixtures=self.names.fixtures, **(options.model_dump() if options else {}))

    def stop(self) -> None:
        """Begins no further case; running ones finish, and the report shows the rest as not run."""
        if self._progress is not None:
            self.stopped = True
            self._progress.stop()

    async def evaluate(
        self,
        eval_set: EvalSet | Path | str,
        parallel: bool = False,
        max_concurrency: int | None = None,
        verbose: bool = False,
        output_dir: Path | str | None = None,
        *,
        source: str | None = None,
    ) -> EvalReport:
        """Runs every case, scores it, and runs the reporters.

        Args:
            eval_set: The set, or the path of its file.
            parallel: Run several cases at once; the config can say so too.
            max_concurrency: How many at once, at least 1; None takes the config's (4).
            verbose: Print each case as it ends.
            output_dir: Folder for the reports instead of the config's.
            source: The file that an already loaded set came from, for the report.

        Raises:
            LoadError: The file of the set cannot be used.
            UsageError: The set or an argument makes no sense.
            asyncio.CancelledError: The call was cancelled; ``report`` then holds what was earned, and the reports are
                written.
        """
        source = source if isinstance(eval_set, EvalSet) else str(eval_set)
        loaded = eval_set if isinstance(eval_set, EvalSet) else EvalSet.from_file(eval_set)
        if max_concurrency is not None and max_concurrency < 1:
            raise UsageError(f"max_concurrency must be at least 1, got {max_concurrency}")
        named = self.prepare(loaded, source=source)
        concurrency = 1
        if parallel or self.config.parallel:
            concurrency = self.config.max_concurrency if max_concurrency is None else max_concurrency
        run = _Run(self, loaded, source, output_dir, named)
        self.report, self.reporter_output, self.stopped = None, None, False
        self._progress = run.progress
        self._run_id = run.run_id
        try:
            await run.cases(concurrency, verbose or self.config.verbose)
        finally:
            await self._release(named)
            self._progress = None
            self.report = run.report()
            self.reporter_output = run.write(self.report)
        return self.report

    async def evaluate_case(self, case: EvalCase) -> EvalCaseResult:
        """Runs and scores one case; no reporters.

        Raises:
            UsageError: The case names a target, check or fixture that nobody defines.
            AgentImportError: What it names cannot be imported.
        """
        problems = self._unknown([case])
        if problems:
            places = ((problem.place.partition(".")[2], problem.message) for problem in problems)
            raise UsageError("\n".join(f"{case.eval_id}: {place}: {message}" for place, message in places))
        named = self._named([case])
        try:
            plan = await self._checked_plan(named, [case])
            with contained(asyncio.get_running_loop()):
                return await self._run_one(case, plan)
        finally:
            await self._release(named)

    async def _release(self, named: Mapping[tuple[str, str], Any]) -> None:
        """Closes the connections of judges and agents; what is asked later opens them again."""
        await self.judges.close()
        await release_connections([self._target, *named.values()])

    def prepare(self, eval_set: EvalSet, *, source: str | None = None) -> dict[tuple[str, str], Any]:
        """Imports the targets, checks and fixtures that a set names, as `evaluate` does before anything runs.

        Raises:
            LoadError: The set, which came from the file ``source``, cannot be run: nobody defines what it names. Or a
                prompt of the user's is missing or broken.
            UsageError: The same, of a set without a file.
            AgentImportError: What it names cannot be imported; the message lists all of it.
        """
        problems = [*eval_set.problems(), *self._unknown(eval_set.eval_cases)]
        if problems and source is not None:
            raise LoadError(source, problems)
        if problems:
            raise UsageError("\n".join(f"{problem.place}: {problem.message}" for problem in problems))
        self._check_prompts(eval_set.eval_cases)
        return self._named(eval_set.eval_cases)

    def _check_prompts(self, cases: Sequence[EvalCase]) -> None:
        """Raises `LoadError` when a prompt of the user's, which the config, a case or a turn names, is broken."""
        own = [c for case in cases for c in (case.criteria, *(turn.criteria for turn in case.conversation)) if c]
        judged = ((s, c) for criteria in (self.config.criteria, *own) for s, c in criteria.enabled().items())
        named = {(s, c.prompt) for s, c in judged if isinstance(c, JudgedConfig) and c.prompt is not None}
        for slot, path in sorted(named):
            check_prompt(slot, path)

    def _unknown(self, cases: Sequence[EvalCase]) -> list[Problem]:
        """What the cases name and nobody defines."""
        problems = unknown_names(cases, [self.names])
        if self._target is None and not self.config.mock_mode:
            problems += [
                Problem(f"eval_cases[{index}].target", "no agent is given, so the case has to name its target")
                for index, case in enumerate(cases)
                if case.target is None
            ]
        return problems

    def _named(self, cases: Sequence[EvalCase]) -> dict[tuple[str, str], Any]:
        """The targets, checks and fixtures of the cases; none in a mock run, which uses none."""
        return {} if self.config.mock_mode else self.names.load(cases)

    async def _checked_plan(self, named: Mapping[tuple[str, str], Any], cases: Sequence[EvalCase]) -> Plan:
        """The plan, after the judges have answered the config's controls."""
        plan = self._plan(named)
        if self.config.judge_controls and not self.config.mock_mode:
            plan.distrusted = await distrusted(self.criteria, cases, self.config, self.judges)
        return plan

    def _run_one(self, case: EvalCase, plan: Plan) -> Awaitable[EvalCaseResult]:
        return run_case(case, plan) if self.hooks is None else run_watched(case, plan, self.hooks)

    def _plan(self, named: Mapping[tuple[str, str], Any]) -> Plan:
        events = self.collector.capture_all_events if self.collector else False
        return Plan(
            self._target,
            self.config,
            self.criteria,
            self.extra_criteria,
            self.judges,
            lambda: TrajectoryCollector(events),
            named=named,
        )

    def run_sync(
        self,
        eval_set: EvalSet | Path | str,
        verbose: bool = False,
        output_dir: Path | str | None = None,
        *,
        source: str | None = None,
    ) -> EvalReport:
        """`evaluate` for synchronous code. The first Ctrl-C ends the run early and keeps what was earned.

        Raises:
            UsageError: An event loop is running here already; use ``await evaluate(...)``.
        """
        _refuse_running_loop()
        run = self.evaluate(eval_set, verbose=verbose, output_dir=output_dir, source=source)
        return _loop.run(run, self.stop)

    @classmethod
    def evaluate_sync(
        cls,
        graph: Any,
        collector: TrajectoryCollector | None,
        eval_set: EvalSet | Path | str,
        config: EvalConfig | None = None,
        verbose: bool = False,
    ) -> EvalReport:
        """Makes an evaluator and runs one eval set from synchronous code.

        Raises:
            UsageError: An event loop is running here already; use ``await evaluate(...)``.
        """
        _refuse_running_loop()
        return cls(graph, collector, config).run_sync(eval_set, verbose)

    @classmethod
    async def evaluate_file(
        cls, agent_module: str | ModuleType, eval_file: Path | str, config_file: Path | str | None = None
    ) -> EvalReport:
        """Runs the agent of a module through an eval set file.

        Args:
            agent_module: A module that has ``graph``, ``compiled_graph``, ``agent_graph``, ``app`` or ``agent``, or
                ``module:attribute``.
            eval_file: The eval set.
            config_file: The config; None is `EvalConfig.default`.

        Raises:
            AgentImportError: The module does not lead to an agent.
            LoadError: A file cannot be used.
        """
        config = EvalConfig.from_file(config_file) if config_file is not None else None
        return await cls(import_agent(agent_module), config=config).evaluate(eval_file)


def _judges(config: EvalConfig, judge: Judge | Callable[[Any], Awaitable[Any]] | None) -> Judges:
    settings = config.judge
    if judge is None and settings.function is not None:
        judge = import_agent(settings.function, f"judge.function {settings.function!r}")
    given = None if judge is None else as_judge(judge)

    def resolve(model: str) -> Judge:
        if given is not None:
            return given
        from agentflow_eval.judge import providers

        return providers.resolve(model, settings)

    path = config.judge_cache
    return Judges(
        resolve,
        name=None if judge is None else _name_of(judge),
        max_concurrency=settings.max_concurrency,
        timeout=settings.timeout,
        open_cache=None if path is None else lambda: JudgeCache(path),
        replay_only=config.replay_only,
        parameters={
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "base_url": settings.base_url,
            "judge": None if judge is None else _name_of(judge),
        },
        prices={model: (price.input, price.output) for model, price in settings.prices.items()},
        include_io=config.include_judge_io,
    )


def _name_of(judge: Any) -> str:
    return str(getattr(judge, "__qualname__", type(judge).__qualname__))


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("an event loop is running here already; use `await evaluator.evaluate(...)` instead")


class _Run:
    """One eval set on its way to a report."""

    def __init__(
        self,
        evaluator: AgentEvaluator,
        eval_set: EvalSet,
        source: str | None,
        output_dir: Path | str | None,
        named: Mapping[tuple[str, str], Any],
    ) -> None:
        self.evaluator = evaluator
        self.config = evaluator.config
        self.eval_set = eval_set
        self.source = source
        self.named = named
        self.output_dir = Path(output_dir or self.config.reporter.output_dir)
        self.run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        self.progress = Progress([None] * len(eval_set))
        self.started_at = datetime.now(UTC)
        self.clock = time.perf_counter()
        self.journal: Journal | None = None
        self.judge_use_before = asdict(evaluator.judges.use)

    async def cases(self, concurrency: int, verbose: bool) -> None:
        """Runs the cases and notes each result on disk when reports are wanted there."""
        plan = await self.evaluator._checked_plan(self.named, self.eval_set.eval_cases)
        self.journal = self._journal()

        with self._shown(verbose) as shown:

            def on_result(result: EvalCaseResult) -> None:
                if self.journal is not None:
                    self.journal.append(result)
                if shown is not None:
                    shown.case_done(result)

            with contained(asyncio.get_running_loop()):
                await run_cases(
                    self.eval_set.eval_cases,
                    lambda case: self.evaluator._run_one(case, plan),
                    concurrency,
                    self.progress,
                    on_result,
                )

    def _shown(self, verbose: bool) -> Any:
        reporter = self.config.reporter
        if not (verbose or (reporter.enabled and reporter.console)):
            return nullcontext()
        from agentflow_eval.reporters.console import progress

        return progress(len(self.eval_set), verbose=verbose)

    def _journal(self) -> Journal | None:
        if not (self.config.reporter.enabled and self.config.reporter.json_report):
            return None
        path = self.output_dir / f"{safe_name(self.eval_set.eval_set_id)}-{self.run_id}.partial.jsonl"
        header = {"eval_set_id": self.eval_set.eval_set_id, "eval_set_name": self.eval_set.name, "run_id": self.run_id}
        try:
            return Journal(path, header)
        except ReportError:
            return None  # the reporters will meet the same trouble and say so

    def report(self) -> EvalReport:
        """The report of what was done so far; cases without a result count as not run."""
        results = [
            result or self._without_result(index, case)
            for index, (result, case) in enumerate(zip(self.progress.results, self.eval_set.eval_cases, strict=True))
        ]
        finished = datetime.now(UTC)
        return EvalReport.create(
            self.eval_set.eval_set_id,
            results,
            self.eval_set.name,
            self.config.model_dump(mode="json"),
            eval_set_file=self.source,
            run_id=self.run_id,
            config_hash=digest(self.config),
            eval_set_hash=digest(self.eval_set),
            versions=_versions(),
            started_at=self.started_at.isoformat(timespec="seconds"),
            finished_at=finished.isoformat(timespec="seconds"),
            timestamp=finished.timestamp(),
            wall_clock_seconds=time.perf_counter() - self.clock,
            mock=self.config.mock_mode,
            interrupted=None in self.progress.results,
            judge_use=self._judge_use(),
            min_pass_rate=self.config.min_pass_rate,
            metadata=self.eval_set.metadata,
        )

    def _judge_use(self) -> dict[str, int]:
        used = asdict(self.evaluator.judges.use)
        before = self.judge_use_before
        return {name: count - before[name] for name, count in used.items()} if used != before else {}

    def _without_result(self, index: int, case: EvalCase) -> EvalCaseResult:
        if index in self.progress.started:
            return unrun(
                case, Outcome.ERROR, error_kind=ErrorKind.CANCELLED, error="the run was interrupted during this case"
            )
        return unrun(
            case, Outcome.ERROR, error_kind=ErrorKind.NOT_RUN, error="the run was interrupted before this case"
        )

    def write(self, report: EvalReport) -> ReporterOutput | None:
        """Runs the reporters; what they could not do is a warning, and in their output."""
        output = None
        if self.config.reporter.enabled:
            from agentflow_eval.reporters import ReporterManager

            manager = ReporterManager(self.config.reporter, self.evaluator.reporters)
            output = manager.run_all(report, self.output_dir)
            for name, message in output.errors:
                warnings.warn(f"{name} report: {message}", RuntimeWarning, stacklevel=4)
        if self.journal is not None:
            self.journal.close()
            if output is not None and output.json_path is not None:
                self.journal.remove()
        return output


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("agentflow-eval", *_RUNTIMES):
        if package == "agentflow-eval" or package.replace("-", "_") in sys.modules:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                continue
    return found


class EvaluationRunner:
    """Runs several agents through several eval sets, one after the other.

    Args:
        default_config: The config of every run that names none.

    Attributes:
        results: Reports by eval set id.
    """

    def __init__(self, default_config: EvalConfig | None = None) -> None:
        self.default_config = default_config
        self.results: dict[str, EvalReport] = {}

    async def run(
        self,
        evaluations: Sequence[tuple[Any, TrajectoryCollector | None, EvalSet | Path | str]],
        config: EvalConfig | None = None,
        verbose: bool = False,
    ) -> dict[str, EvalReport]:
        """The report of each ``(graph, collector, eval_set)``, by eval set id.

        Raises:
            UsageError: Two sets have the same id, so that one report would hide the other.
        """
        loaded = [
            (graph, collector, item if isinstance(item, EvalSet) else EvalSet.from_file(item))
            for graph, collector, item in evaluations
        ]
        ids = [eval_set.eval_set_id for _, _, eval_set in loaded]
        for eval_set_id in ids:
            if ids.count(eval_set_id) > 1:
                raise UsageError(f"two eval sets have the id {eval_set_id!r}; give each its own")
        for graph, collector, eval_set in loaded:
            evaluator = AgentEvaluator(graph, collector, config or self.default_config)
            self.results[eval_set.eval_set_id] = await evaluator.evaluate(eval_set, verbose=verbose)
        return self.results

    @property
    def summary(self) -> dict[str, Any]:
        """``total_evaluations``, ``total_cases``, ``passed_cases`` and ``overall_pass_rate`` (of cases not skipped)."""
        summaries = [report.summary for report in self.results.values()]
        passed = sum(summary.passed_cases for summary in summaries)
        ran = sum(summary.total_cases - summary.skipped_cases for summary in summaries)
        return {
            "total_evaluations": len(summaries),
            "total_cases": sum(summary.total_cases for summary in summaries),
            "passed_cases": passed,
            "overall_pass_rate": passed / ran if ran else 0.0,
        }
