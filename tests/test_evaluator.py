"""The front door: an agent, an eval set and a config in, a scored report out."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import (
    AgentOptions,
    CriteriaConfig,
    CriterionConfig,
    EvalConfig,
    ReporterConfig,
)
from agentflow_eval.dataset import EvalSet
from agentflow_eval.engine.journal import read_journal
from agentflow_eval.errors import AgentImportError, LoadError, MissingFileError, TargetError, UsageError
from agentflow_eval.evaluator import AgentEvaluator, EvaluationRunner
from agentflow_eval.result import CriterionResult, EvalReport, Outcome
from tests.engine.runs import (
    NO_REPORTS,
    Instant,
    case,
    config,
    eval_set,
    numbered,
    ok,
    outcomes,
    records,
    run,
    talk,
)

HERE = Path(__file__).parent


def reports_in(folder: Path, **settings: Any) -> ReporterConfig:
    """Reports in a folder, none on the console."""
    return ReporterConfig(**{"output_dir": str(folder), "console": False, "timestamp_files": False} | settings)


@pytest.fixture
def modules() -> Iterator[None]:
    """Forgets the modules that a test imports."""
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


# Calls


def test_async_and_sync() -> None:
    """The same evaluation from asynchronous and from synchronous code."""
    evaluator = AgentEvaluator(ok, config=config())
    reports = [
        asyncio.run(evaluator.evaluate(eval_set(case()))),
        evaluator.run_sync(eval_set(case())),
        AgentEvaluator.evaluate_sync(ok, None, eval_set(case()), config()),
        AgentEvaluator.evaluate_sync(ok, TrajectoryCollector(), eval_set(case()), config()),
    ]
    assert [report.passed for report in reports] == [True] * 4
    assert evaluator.report is reports[1]


@pytest.mark.parametrize("as_text", [True, False])
def test_set_as_a_file(tmp_path: Path, as_text: bool) -> None:
    """A set may be given as its file, which the report then names."""
    path = tmp_path / "orders.json"
    eval_set(case()).to_file(path)
    report = AgentEvaluator(ok, config=config()).run_sync(str(path) if as_text else path)
    assert (report.eval_set_id, report.eval_set_file) == ("s", str(path))
    with pytest.raises(MissingFileError):
        AgentEvaluator(ok, config=config()).run_sync(tmp_path / "other.json")


def test_inside_a_running_loop() -> None:
    """Synchronous calls inside a running event loop say what to write instead."""
    evaluator = AgentEvaluator(ok, config=config())

    async def calls() -> None:
        with pytest.raises(UsageError, match=r"await evaluator\.evaluate"):
            evaluator.run_sync(eval_set(case()))
        with pytest.raises(UsageError, match=r"await evaluator\.evaluate"):
            AgentEvaluator.evaluate_sync(ok, None, eval_set(case()))

    asyncio.run(calls())


def test_one_case() -> None:
    """A single case, without reporters."""
    evaluator = AgentEvaluator(ok, config=config())
    assert asyncio.run(evaluator.evaluate_case(case())).passed
    assert evaluator.report is None


@pytest.mark.parametrize("count", [0, -1])
def test_impossible_concurrency(count: int) -> None:
    """At least one case runs at once."""
    with pytest.raises(UsageError, match=f"max_concurrency must be at least 1, got {count}"):
        asyncio.run(AgentEvaluator(ok, config=config()).evaluate(eval_set(case()), max_concurrency=count))


def test_impossible_set() -> None:
    """A set made in Python is checked like a file, and nothing is run."""
    with pytest.raises(UsageError) as caught:
        run(ok, case("a"), case("a"), talk())
    assert 'eval_cases[1].eval_id: "a" is already the id of eval_cases[0]' in str(caught.value)
    assert "eval_cases[2].conversation" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, UsageError, "no agent given"),
        ({"graph": 7}, TargetError, "cannot drive builtins.int"),
        ({"graph": object}, TargetError, "give an instance"),
        ({"graph": ok, "collector": EvalConfig()}, UsageError, "name it: config=EvalConfig"),
        ({"graph": ok, "criteria": CriteriaConfig()}, UsageError, "criteria takes BaseCriterion objects, got tuple"),
        ({"graph": ok, "criteria": [Instant]}, UsageError, "got ABCMeta"),
    ],
)
def test_impossible_evaluator(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """What cannot work is refused before anything is run."""
    with pytest.raises(error, match=message):
        AgentEvaluator(**arguments)


def test_criteria_may_be_changed() -> None:
    """The criteria of an evaluator may be changed before a run."""
    evaluator = AgentEvaluator(ok, config=config())
    evaluator.criteria.append(Instant(lambda actual: CriterionResult.scored("own", 0.0, 0.5)))
    assert outcomes(evaluator.run_sync(eval_set(case()))) == ["failed"]


# Aggregates


def test_broken_cases_do_not_move_the_mean() -> None:
    """A case that broke counts in the pass rate and not in the mean."""

    async def agent(text: str) -> str:
        if text == "c3":
            await asyncio.Event().wait()
        return text

    cases = [case("c1", "c1", "c1"), case("c2", "c2", "c1 c2 c3"), case("c3", "c3", "c3")]
    criteria = CriteriaConfig(rouge_match=CriterionConfig.rouge_match(0.9))
    summary = run(agent, *cases, criteria=criteria, timeout=0.3).summary
    stats = summary.criterion_stats["rouge_match"]
    assert (stats.avg_score, stats.scored, stats.errored, stats.total) == (0.75, 2, 1, 3)
    assert (summary.total_cases, round(summary.pass_rate, 6)) == (3, 0.333333)


def test_empty_set() -> None:
    """An empty set is not passed."""
    report = AgentEvaluator(ok, config=config(min_pass_rate=0.01)).run_sync(eval_set())
    assert (report.passed, report.gate_passed, report.summary.pass_rate) == (False, False, 0.0)


def test_provenance() -> None:
    """A report says what was run, with which settings and versions, and when."""
    first, second = run(ok), run(ok)
    other = run(ok, case("c2"), timeout=7.0)
    assert first.run_id != second.run_id
    assert (first.config_hash, first.eval_set_hash) == (second.config_hash, second.eval_set_hash)
    assert first.config_hash != other.config_hash
    assert first.eval_set_hash != other.eval_set_hash
    assert len(first.config_hash) == len(first.eval_set_hash) == 16
    assert other.config_used["timeout"] == 7.0
    assert first.versions.keys() >= {"python", "agentflow-eval"}
    assert first.started_at.endswith("+00:00")
    assert first.started_at <= first.finished_at
    assert 0 < first.summary.wall_clock_seconds < 5
    assert not first.interrupted


def test_versions_of_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of a runtime is told when it is in use and installed."""
    monkeypatch.setitem(sys.modules, "executionkit", types.ModuleType("executionkit"))
    assert "executionkit" not in run(ok).versions


def test_random_numbers_are_left_alone() -> None:
    """A run does not take from the random numbers that an agent has seeded."""

    async def agent(text: str) -> str:
        drawn.append(random.random())
        return "ok"

    drawn: list[float] = []
    for _ in range(2):
        random.seed(7)
        run(agent, *numbered(3))
    assert drawn[:3] == drawn[3:]


def test_metadata_that_is_no_json(tmp_path: Path) -> None:
    """Metadata made in Python may hold anything; the reports are written."""
    odd = case(metadata={"lock": object(), "text": "half \ud83d"})
    made = eval_set(odd, metadata={"when": {1}})
    evaluator = AgentEvaluator(ok, config=config(reporter=reports_in(tmp_path, junit_xml=True)))
    assert evaluator.run_sync(made).passed
    assert evaluator.reporter_output is not None
    assert evaluator.reporter_output.errors == []


# Every field of the config


def two_outcomes(first: dict[str, Any], second: dict[str, Any], agent: Any = ok) -> list[list[str]]:
    """The outcomes under two configs."""
    return [outcomes(run(agent, *numbered(2), **settings)) for settings in (first, second)]


def test_field_criteria() -> None:
    """``criteria``."""
    wants_word = CriteriaConfig(contains_keywords=CriterionConfig.contains_keywords(["word"]))
    assert two_outcomes({}, {"criteria": wants_word}) == [["passed"] * 2, ["failed"] * 2]


def test_field_timeout() -> None:
    """``timeout``."""

    async def agent(text: str) -> str:
        await asyncio.sleep(0.05)
        return "ok"

    assert two_outcomes({}, {"timeout": 0.01}, agent) == [["passed"] * 2, ["error"] * 2]


def test_field_min_pass_rate() -> None:
    """``min_pass_rate``."""

    async def agent(text: str) -> str:
        return "ok" if text == "c1" else "no"

    reports = [run(agent, *numbered(2), min_pass_rate=rate) for rate in (0.51, 0.5)]
    assert [report.gate_passed for report in reports] == [False, True]
    assert [report.passed for report in reports] == [False, False]


def test_field_mock_mode() -> None:
    """``mock_mode``: the agent is not asked, and may be left out."""

    async def agent(text: str) -> str:
        raise AssertionError

    report = run(agent, mock_mode=True)
    assert (report.mock, outcomes(report)) == (True, ["passed"])


def test_field_agent_options() -> None:
    """``agent_options``."""

    class Model:
        async def ainvoke(self, question: Any) -> dict[str, str]:
            return {"answer": "ok", "asked": str(sorted(question))}

    options = AgentOptions(input_key="question", output_key="answer")
    assert run(Model(), agent_options=options).passed
    reads_asked = AgentOptions(input_key="question", output_key="asked", initial_state={"a": 1})
    assert run(Model(), agent_options=reads_asked).results[0].actual_response == "['a', 'question']"
    with pytest.raises(TargetError, match="input_key, output_key only make sense for a graph"):
        AgentEvaluator(ok, config=config(agent_options=options))


def test_field_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    """``verbose``, in the config or in the call: a line for each case."""
    run(ok, *numbered(2))
    assert capsys.readouterr().err == ""
    run(ok, *numbered(2), verbose=True)
    assert capsys.readouterr().err.startswith("[1/2] PASSED   c1")
    AgentEvaluator(ok, config=config()).run_sync(eval_set(*numbered(2)), verbose=True)
    assert "[2/2] PASSED   c2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, {"s.json", "s.html"}),
        ({"enabled": False}, set()),
        ({"json_report": False}, {"s.html"}),
        ({"html": False}, {"s.json"}),
        ({"junit_xml": True}, {"s.json", "s.html", "s_junit.xml"}),
        ({"templates": [str(HERE.parent / "reporters" / "summary.md.j2")]}, {"s.json", "s.html", "s_summary.md"}),
    ],
)
def test_field_reporter(tmp_path: Path, settings: dict[str, Any], names: set[str]) -> None:
    """``reporter``: which files are written."""
    evaluator = AgentEvaluator(ok, config=config(reporter=reports_in(tmp_path / "out", **settings)))
    evaluator.run_sync(eval_set(case()))
    written = tmp_path / "out"
    assert {path.name for path in written.iterdir()} if written.exists() else set() == names
    assert (evaluator.reporter_output is None) == (settings == {"enabled": False})


def test_field_reporter_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``reporter.console`` and ``reporter.verbose``."""
    printed = []
    for settings in ({"console": False}, {"console": True, "verbose": False}, {"console": True, "verbose": True}):
        reporter = reports_in(tmp_path, json_report=False, html=False, **settings)
        AgentEvaluator(ok, config=config(reporter=reporter)).run_sync(eval_set(case()))
        printed.append(capsys.readouterr().out)
    assert printed[0] == ""
    assert "PASSED: 1 of 1 case passed" in printed[1]
    assert "PASSED   c1" not in printed[1]
    assert "PASSED   c1" in printed[2]


def test_field_reporter_timestamp_files(tmp_path: Path) -> None:
    """``reporter.timestamp_files``: later runs do not replace earlier ones."""
    reporter = reports_in(tmp_path, html=False, timestamp_files=True)
    for _ in range(2):
        AgentEvaluator(ok, config=config(reporter=reporter)).run_sync(eval_set(case()))
    assert len(list(tmp_path.glob("s_*.json"))) == 2


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("include_trajectory", ["actual_trajectory"]),
        ("include_actual_response", ["actual_response"]),
        ("include_tool_call_details", ["actual_tool_calls", 0, "args"]),
        ("include_node_responses", ["node_responses"]),
        ("include_details", ["criterion_results", 0, "details", "expected_length"]),
    ],
)
def test_field_reporter_include(tmp_path: Path, field: str, path: list[Any]) -> None:
    """``reporter.include_*``: how much a report shows."""

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.node_response("MAIN", response_text="ok")
        return await records(text, run)

    shown = []
    for value in (True, False):
        reporter = reports_in(tmp_path, html=False, **{field: value})
        AgentEvaluator(agent, config=config(reporter=reporter)).run_sync(eval_set(case(answer="no")))
        found: Any = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))["results"][0]
        for key in path:
            found = found.get(key) if isinstance(found, dict) else found[key]
        shown.append(bool(found))
    assert shown == [True, False]


def test_output_dir_of_a_call(tmp_path: Path) -> None:
    """A call may name another folder."""
    evaluator = AgentEvaluator(ok, config=config(reporter=reports_in(tmp_path / "a", html=False)))
    evaluator.run_sync(eval_set(case()), output_dir=tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_every_field_has_its_test() -> None:
    """No field of the config is forgotten here or in the tests named below."""
    elsewhere = {
        "schema_": "tests/test_config.py",
        "agent": "tests/test_cli.py",
        "parallel": "tests/engine/test_schedule.py",
        "max_concurrency": "tests/engine/test_schedule.py",
        "criterion_timeout": "tests/engine/test_case.py",
        "retries": "tests/engine/test_case.py",
        "trials": "tests/engine/test_trials.py",
        "user_simulator_config": "tests/test_simulation.py",
        "judge": "tests/judge",
        "judge_cache": "tests/judge",
        "replay_only": "tests/judge",
        "include_judge_io": "tests/judge",
        "judge_controls": "tests/engine",
        "endpoint": "tests/adapters/test_http.py",
        "endpoints": "tests/adapters/test_http.py",
        "targets": "tests/engine/test_names.py",
        "checks": "tests/engine/test_names.py",
        "fixtures": "tests/engine/test_names.py",
        "fixture_timeout": "tests/engine/test_fixtures.py",
    }
    here = {name.removeprefix("test_field_") for name in globals() if name.startswith("test_field_")}
    assert EvalConfig.model_fields.keys() - elsewhere.keys() == here & EvalConfig.model_fields.keys()


# Reports that cannot be written


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The report is returned, and what could not be written is a warning and in the output."""
    (tmp_path / "file").touch()
    evaluator = AgentEvaluator(ok, config=config(reporter=reports_in(tmp_path / "file" / "x")))
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        report = evaluator.run_sync(eval_set(case()))
    assert report.passed
    assert evaluator.reporter_output is not None
    assert evaluator.reporter_output.has_errors


def test_reporter_of_ones_own(tmp_path: Path) -> None:
    """Reporters of one's own are run too; one that raises does not keep the others from their work."""

    class Counts:
        file_name = "counts.txt"

        def render(self, report: EvalReport) -> str:
            return str(report.summary.total_cases)

    class Broken:
        def render(self, report: EvalReport) -> str:
            raise RuntimeError("no ink")

    evaluator = AgentEvaluator(ok, config=config(reporter=reports_in(tmp_path)), reporters=[Broken(), Counts()])
    with pytest.warns(RuntimeWarning, match="RuntimeError: no ink"):
        evaluator.run_sync(eval_set(case()))
    assert (tmp_path / "s_counts.txt").read_text(encoding="utf-8") == "1"


# Interruption


def test_cancelled(tmp_path: Path) -> None:
    """Cancelling evaluate() raises, and what was earned is in the report and on disk."""

    waiting = asyncio.Event()

    async def agent(text: str) -> str:
        if text == "c3":
            waiting.set()
            await asyncio.Event().wait()
        return "ok"

    evaluator = AgentEvaluator(agent, config=config(reporter=reports_in(tmp_path, junit_xml=True), min_pass_rate=0.1))

    async def main() -> None:
        task = asyncio.create_task(evaluator.evaluate(eval_set(*numbered(4))))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    report = evaluator.report
    assert report is not None
    assert outcomes(report) == ["passed", "passed", "error", "error"]
    assert [result.error_kind for result in report.results] == [None, None, "cancelled", "not_run"]
    assert (report.interrupted, report.passed, report.gate_passed) == (True, False, False)
    assert EvalReport.from_file(tmp_path / "s.json") == report
    assert {path.name for path in tmp_path.iterdir()} == {"s.json", "s.html", "s_junit.xml"}


@pytest.mark.parametrize("delay", [0, 0.001, 0.01])
def test_cancelled_at_any_time(delay: float) -> None:
    """However early or late it is cancelled, the report has every case."""

    async def agent(text: str) -> str:
        await asyncio.sleep(0.003)
        return "ok"

    evaluator = AgentEvaluator(agent, config=config(parallel=True, max_concurrency=3))

    async def main() -> None:
        task = asyncio.create_task(evaluator.evaluate(eval_set(*numbered(20))))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    if evaluator.report is not None:
        assert len(evaluator.report.results) == 20
        assert evaluator.report.interrupted


def test_report_of_the_latest_run() -> None:
    """A run that cannot begin leaves no report of an earlier one behind as its own."""
    evaluator = AgentEvaluator(ok, config=config())

    async def agent_cancels() -> None:
        await evaluator.evaluate(eval_set(case()))
        task = asyncio.create_task(evaluator.evaluate(eval_set(*numbered(2))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(agent_cancels())
    assert evaluator.report is None or len(evaluator.report.results) == 2


def test_keyboard_interrupt_of_an_agent(tmp_path: Path) -> None:
    """Ctrl-C that an agent lets through ends the run, and what was earned is written."""

    async def agent(text: str) -> str:
        if text == "c2":
            raise KeyboardInterrupt
        return "ok"

    evaluator = AgentEvaluator(agent, config=config(reporter=reports_in(tmp_path)))
    with pytest.raises(KeyboardInterrupt):
        evaluator.run_sync(eval_set(*numbered(3)))
    report = EvalReport.from_file(tmp_path / "s.json")
    assert [result.error_kind for result in report.results] == [None, "cancelled", "not_run"]


def test_results_on_disk_while_cancelled(tmp_path: Path) -> None:
    """Each result is on disk as soon as there is one."""
    seen: list[list[str]] = []

    async def agent(text: str) -> str:
        if text == "c3":
            (journal,) = tmp_path.glob("*.partial.jsonl")
            seen.append([result.eval_id for result in read_journal(journal).results])
        return "ok"

    AgentEvaluator(agent, config=config(reporter=reports_in(tmp_path))).run_sync(eval_set(*numbered(3)))
    assert seen == [["c1", "c2"]]


# Files and modules


@pytest.mark.parametrize("name", ["graph", "compiled_graph", "agent_graph", "app", "agent"])
def test_evaluate_file(tmp_path: Path, name: str) -> None:
    """The agent of a module, by any of the usual names, through files."""
    module = types.ModuleType("some_agent")
    setattr(module, name, ok)
    eval_set(case()).to_file(tmp_path / "set.json")
    config().to_file(tmp_path / "config.json")
    report = asyncio.run(AgentEvaluator.evaluate_file(module, tmp_path / "set.json", str(tmp_path / "config.json")))
    assert report.passed


def test_evaluate_file_by_name(tmp_path: Path, modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent may be named; the default config judges tools and asks a judge."""
    (tmp_path / "named_agent.py").write_text("async def answer(text):\n    return 'ok'\n", encoding="utf-8")
    eval_set(case()).to_file(tmp_path / "set.json")
    (tmp_path / "config.json").write_text('{"criteria": {"exact_match": {}}}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    report = asyncio.run(AgentEvaluator.evaluate_file("named_agent:answer", "set.json", "config.json"))
    assert report.passed
    assert [path.suffix for path in sorted((tmp_path / "eval_reports").iterdir())] == [".html", ".json"]


def test_evaluate_file_that_cannot_be_used(tmp_path: Path) -> None:
    """Modules without an agent and broken files are errors."""
    with pytest.raises(AgentImportError, match="has none of graph, compiled_graph"):
        asyncio.run(AgentEvaluator.evaluate_file(types.ModuleType("empty"), tmp_path / "x.json"))
    with pytest.raises(LoadError, match="not found"):
        asyncio.run(AgentEvaluator.evaluate_file(types.ModuleType("empty"), tmp_path / "x.json", tmp_path / "c.json"))


def test_runner(tmp_path: Path) -> None:
    """Several agents through several sets."""

    async def wrong(text: str) -> str:
        return "no"

    eval_set(*numbered(3), eval_set_id="b").to_file(tmp_path / "b.json")
    runner = EvaluationRunner(config())
    first = eval_set(case(), case("later", skip="later"), eval_set_id="a")
    results = asyncio.run(runner.run([(ok, None, first), (wrong, TrajectoryCollector(), tmp_path / "b.json")]))
    assert list(results) == ["a", "b"]
    assert results is runner.results
    assert runner.summary == {
        "total_evaluations": 2,
        "total_cases": 5,
        "passed_cases": 1,
        "overall_pass_rate": 0.25,
    }


def test_runner_config() -> None:
    """A run's config stands above the runner's."""
    runner = EvaluationRunner(config())
    other = config(criteria=CriteriaConfig(contains_keywords=CriterionConfig.contains_keywords(["word"])))
    results = asyncio.run(runner.run([(ok, None, eval_set(case()))], other))
    assert results["s"].results[0].outcome is Outcome.FAILED


def test_runner_with_equal_ids() -> None:
    """Two sets with one id would hide each other."""
    with pytest.raises(UsageError, match="two eval sets have the id 's'"):
        asyncio.run(EvaluationRunner(config()).run([(ok, None, eval_set(case())), (ok, None, eval_set(case()))]))


def test_runner_without_runs() -> None:
    """Nothing run is no pass rate."""
    assert EvaluationRunner().summary["overall_pass_rate"] == 0.0
    assert asyncio.run(EvaluationRunner(EvalConfig(reporter=NO_REPORTS)).run([])) == {}


def test_evaluations_at_once() -> None:
    """Several evaluators in one loop do not see each other."""

    async def main() -> list[EvalReport]:
        sets: list[EvalSet] = [eval_set(*numbered(5), eval_set_id=f"s{n}") for n in range(5)]
        return await asyncio.gather(*[AgentEvaluator(records, config=config()).evaluate(one, True) for one in sets])

    reports = asyncio.run(main())
    assert [report.eval_set_id for report in reports] == ["s0", "s1", "s2", "s3", "s4"]
    assert all(len(result.actual_tool_calls) == 1 for report in reports for result in report.results)
