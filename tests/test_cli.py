"""The command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pydantic import BaseModel

from agentflow_eval import __version__
from agentflow_eval.cli import main
from agentflow_eval.config import EvalConfig
from agentflow_eval.dataset import EvalCase, EvalSet
from agentflow_eval.result import EvalReport
from tests.engine.runs import case, eval_set, numbered

ROOT = Path(__file__).parents[1]

AGENTS = """
import asyncio, itertools, os, signal, time

async def ok(text):
    return "ok"

async def wrong(text):
    return "no"

async def raises(text):
    raise ModuleNotFoundError("No module named 'acme'")

def factory():
    return ok

def broken_factory():
    raise RuntimeError("no key")

class Lazy:
    @property
    def graph(self):
        raise RuntimeError("no key")

lazy = Lazy()
number = 7

def hangs(text):
    time.sleep(60)

async def hangs_in_a_pool(text):
    await asyncio.to_thread(time.sleep, 60)

async def tells(text, run):
    run.node("MAIN")
    print("secret print")
    return "ok"

calls = itertools.count(1)

async def every_other(text):
    return "ok" if next(calls) % 2 else "no"

async def waits(text):
    if text == "c3":
        open("third", "w").close()
        while not os.path.exists("go on"):
            await asyncio.sleep(0.01)
    return "ok"

async def hangs_at_third(text):
    if text == "c3":
        open("third", "w").close()
        await asyncio.sleep(60)
    return "ok"

graph = ok
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with agents, sets and configs."""
    (tmp_path / "cli_agents.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "cli_broken.py").write_text("raise RuntimeError('boom')\n", encoding="utf-8")
    (tmp_path / "cli_exits.py").write_text("import sys\nsys.exit(4)\n", encoding="utf-8")
    (tmp_path / "cli_syntax.py").write_text("def f(:\n", encoding="utf-8")
    (tmp_path / "cli_needs.py").write_text("import acme_sdk\n", encoding="utf-8")
    (tmp_path / "cli_empty.py").write_text("", encoding="utf-8")
    tags = {"c1": ["smoke", "fast"], "c2": ["smoke"], "c3": []}
    cases = [one.model_copy(update={"tags": tags[one.eval_id], "name": f"Case {one.eval_id}"}) for one in numbered(3)]
    eval_set(*cases, eval_set_id="orders").to_file(tmp_path / "set.json")
    eval_set(case("d1"), eval_set_id="other").to_file(tmp_path / "other.json")
    eval_set(eval_set_id="nothing").to_file(tmp_path / "empty.json")
    write_config(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith("cli_"):
            del sys.modules[name]


def write_config(folder: Path, name: str = "config.json", **settings: Any) -> None:
    """A config that compares exactly and writes JSON to ``out``."""
    reporter = {"output_dir": "out", "html": False, **settings.pop("reporter", {})}
    values = {"criteria": {"exact_match": {}}, "reporter": reporter} | settings
    (folder / name).write_text(json.dumps(values), encoding="utf-8")


def run(*options: str, config: str = "config.json", agent: str = "cli_agents:ok", sets: str = "set.json") -> int:
    """The exit code of ``run``."""
    return main(["run", *sets.split(), "--config", config, "--agent", agent, *options])


def written(folder: Path) -> list[EvalReport]:
    """The JSON reports of a folder."""
    return [EvalReport.from_file(path) for path in sorted(folder.glob("*.json"))]


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own."""
    command = [sys.executable, "-m", "agentflow_eval", *arguments]
    values: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120} | options
    return subprocess.run(command, **values)


Capture = pytest.CaptureFixture[str]


# run


def test_run(folder: Path, capsys: Capture) -> None:
    """A run that passes exits with 0, says so, and names its report."""
    assert run() == 0
    printed = capsys.readouterr()
    assert "PASSED: 3 of 3 cases passed" in printed.out
    (path,) = (folder / "out").iterdir()
    assert f"report: {path.relative_to(folder)}" in printed.err
    (report,) = written(folder / "out")
    assert (report.eval_set_id, report.eval_set_file, report.gate_passed) == ("orders", "set.json", True)


@pytest.mark.parametrize("flag", ["-v", "--no-report", "--parallel=2"])
def test_run_that_fails(folder: Path, capsys: Capture, flag: str) -> None:
    """A failed case is exit code 1, whatever the flags."""
    assert run(flag, agent="cli_agents:wrong") == 1
    assert "FAILED: 0 of 3 cases passed" in capsys.readouterr().out


def test_run_that_errs(folder: Path, capsys: Capture) -> None:
    """When every case broke for one reason, the reason is told once."""
    assert run(agent="cli_agents:raises") == 1
    printed = capsys.readouterr().out
    assert "all 3 cases errored: ModuleNotFoundError: No module named 'acme'" in printed


def test_agent_of_the_config(folder: Path) -> None:
    """The config may name the agent, and the option stands above it."""
    write_config(folder, "named.json", agent="cli_agents:ok")
    assert main(["run", "set.json", "--config", "named.json"]) == 0
    assert run(config="named.json", agent="cli_agents:wrong") == 1


def test_no_agent(folder: Path, capsys: Capture) -> None:
    """Without an agent there is nothing to run."""
    assert main(["run", "set.json", "--config", "config.json"]) == 2
    assert "no agent: give --agent module:attribute" in capsys.readouterr().err


@pytest.mark.parametrize("spec", ["cli_agents:factory", "cli_agents", "cli_agents:graph"])
def test_ways_to_name_an_agent(folder: Path, spec: str) -> None:
    """A factory is called; a module without an attribute has one of the usual names."""
    assert run(agent=spec) == 0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cli_agent:ok", "there is no module 'cli_agent'"),
        ("cli_agents.deeper:ok", "there is no module 'cli_agents.deeper'"),
        ("cli_agents:okk", "'cli_agents' has no 'okk'; did you mean 'ok'?"),
        ("cli_agents:ok.deeper", "has no 'deeper'"),
        ("cli_broken:ok", "module 'cli_broken' fails on import: RuntimeError: boom"),
        ("cli_exits:ok", "module 'cli_exits' fails on import: SystemExit: 4"),
        ("cli_syntax:ok", "module 'cli_syntax' fails on import: SyntaxError"),
        ("cli_needs:ok", "module 'cli_needs' needs 'acme_sdk', which is not installed"),
        ("cli_empty", "has none of graph, compiled_graph"),
        ("cli_agents:broken_factory", "broken_factory() failed: RuntimeError: no key"),
        ("cli_agents:lazy.graph", "graph could not be made: RuntimeError: no key"),
        ("cli_agents:number", "cannot drive builtins.int"),
        ("agents/cli_agents.py:ok", "write module:attribute with dots, such as agents.cli_agents:graph"),
        (".cli_agents:ok", "fails on import: TypeError"),
        (":ok", "write module:attribute with dots"),
        (":", "write module:attribute with dots"),
    ],
)
def test_agents_that_cannot_be_had(folder: Path, capsys: Capture, spec: str, message: str) -> None:
    """An agent that cannot be imported is exit code 2 and one line that says why; no report is written."""
    assert run(agent=spec) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""
    assert not (folder / "out").exists()


def test_selection(folder: Path) -> None:
    """Cases by id, name and tags; several tags have to be there together."""
    selections = {
        "--id c2": ["c2"],
        "--id c1 --id c3": ["c1", "c3"],
        "--tag smoke": ["c1", "c2"],
        "--tag smoke --tag fast": ["c1"],
        "--tag smoke --id c2": ["c2"],
    }
    for number, (options, expected) in enumerate(selections.items()):
        assert run(*options.split(), "--output-dir", f"run{number}") == 0
        assert [result.eval_id for result in written(folder / f"run{number}")[0].results] == expected
    assert run("--name", "Case c3", "--output-dir", "named") == 0
    assert [result.name for result in written(folder / "named")[0].results] == ["Case c3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tag", "smoek"], "no case has the tag 'smoek'; did you mean 'smoke'? (known tags: smoke, fast)"),
        (["--id", "c9"], "no case has the id 'c9'"),
        (["--name", "nobody"], "(known names: Case c1, Case c2, Case c3)"),
        (["--tag", "fast", "--id", "c2"], "no case meets all of the options together"),
    ],
)
def test_nothing_selected(folder: Path, capsys: Capture, options: list[str], message: str) -> None:
    """No case selected is exit code 2, with the values that there are."""
    assert run(*options) == 2
    printed = capsys.readouterr().err
    assert "no cases selected" in printed
    assert message in printed


def test_nothing_selected_is_in_the_outputs(folder: Path) -> None:
    """Outputs that were asked for are written, with a test case that is an error."""
    assert run("--tag", "x", "--junit-output", "j.xml", "--json-output", "j.json") == 2
    suite = ElementTree.parse("j.xml").getroot()
    assert suite.get("errors") == "1"
    assert [item.get("name") for item in suite.iter("testcase")] == ["no cases selected"]
    assert EvalReport.from_file("j.json").gate_passed is False


def test_empty_set(folder: Path, capsys: Capture) -> None:
    """An empty set is nothing to run."""
    assert run(sets="empty.json") == 2
    assert "no cases: the eval set is empty" in capsys.readouterr().err


def test_options_above_the_config(folder: Path) -> None:
    """--parallel, --timeout and --trials change the config of the run."""
    assert run("-j", "3", "--timeout", "7.5", "--trials", "2") == 0
    (report,) = written(folder / "out")
    settings = report.config_used
    assert (settings["parallel"], settings["max_concurrency"]) == (True, 3)
    assert (settings["timeout"], settings["trials"]) == (7.5, 2)
    assert [len(result.trials) for result in report.results] == [2, 2, 2]


def test_trials_that_differ(folder: Path, capsys: Capture) -> None:
    """A case that passes only sometimes has failed."""
    assert run("--trials", "2", "--id", "c1", agent="cli_agents:every_other") == 1
    assert written(folder / "out")[0].results[0].flaky


def test_timeout(folder: Path, capsys: Capture) -> None:
    """--timeout bounds a case."""
    assert run("--timeout", "0.05", "--id", "c1", agent="cli_agents:hangs") == 1
    assert "the agent timed out after 0.05 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["--timeout", "0"],
        ["--timeout", "-1"],
        ["--timeout", "nan"],
        ["--timeout", "inf"],
        ["--timeout", "1e999"],
        ["--timeout", "soon"],
        ["--trials", "0"],
        ["--parallel", "0"],
        ["--parallel", "1.5"],
        ["--colour"],
        ["--config"],
    ],
)
def test_bad_options(folder: Path, capsys: Capture, options: list[str]) -> None:
    """An option that makes no sense is exit code 2, and nothing is run."""
    assert run(*options) == 2
    assert "Error: " in capsys.readouterr().err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("arguments", [["run"], ["nonsense"], ["report"], ["schema"], ["check"], ["list"]])
def test_bad_usage(capsys: Capture, arguments: list[str]) -> None:
    """A command that lacks something says what."""
    assert main(arguments) == 2
    assert "Error: " in capsys.readouterr().err


def test_mock(folder: Path, capsys: Capture) -> None:
    """A mock run needs no agent, says that it is one, and never exits with 0."""
    assert main(["run", "set.json", "--config", "config.json", "--mock"]) == 1
    assert "MOCK RUN" in capsys.readouterr().out
    assert written(folder / "out")[0].mock


def test_reports_switched_off(folder: Path, capsys: Capture) -> None:
    """A config without reports prints none; the exit code tells."""
    write_config(folder, "off.json", reporter={"enabled": False})
    assert run(config="off.json") == 0
    assert capsys.readouterr().out == ""
    assert run(config="off.json", agent="cli_agents:wrong") == 1


def test_no_report(folder: Path) -> None:
    """--no-report writes nothing."""
    write_config(folder, "all.json", reporter={"html": True, "junit_xml": True})
    assert run("--no-report", config="all.json") == 0
    assert not (folder / "out").exists()


def test_output_dir(folder: Path) -> None:
    """--output-dir stands above the config's folder."""
    assert run("--output-dir", "elsewhere") == 0
    assert len(written(folder / "elsewhere")) == 1
    assert not (folder / "out").exists()


def test_verbose(folder: Path, capsys: Capture) -> None:
    """-v shows each case as it ends, and passed cases in the report; so does a config that says so."""
    run()
    assert "PASSED   c1" not in capsys.readouterr().out
    run("-v")
    printed = capsys.readouterr()
    assert "PASSED   c1" in printed.out
    assert "[1/3] PASSED   c1" in printed.err
    write_config(folder, "verbose.json", reporter={"verbose": True})
    run(config="verbose.json")
    assert "PASSED   c1" in capsys.readouterr().out
    write_config(folder, "quiet.json", reporter={"verbose": False})
    run("-v", config="quiet.json")
    assert "PASSED   c1" in capsys.readouterr().out


def test_prints_of_an_agent(folder: Path, capsys: Capture) -> None:
    """What an agent prints is in the report and not on the terminal."""
    assert run(agent="cli_agents:tells") == 0
    printed = capsys.readouterr()
    assert "secret print" not in printed.out + printed.err
    assert written(folder / "out")[0].results[0].stdout == "secret print\n"


def test_several_sets(folder: Path, capsys: Capture) -> None:
    """Several sets make a report each, and one JSON and one JUnit file for all of them when asked for."""
    assert run("--json-output", "all.json", "--junit-output", "all.xml", sets="set.json other.json empty.json") == 0
    assert [report.eval_set_id for report in written(folder / "out")] == ["orders", "other"]
    together = json.loads(Path("all.json").read_text(encoding="utf-8"))
    assert together["format_version"] == 1
    assert [report["eval_set_id"] for report in together["reports"]] == ["orders", "other"]
    suites = ElementTree.parse("all.xml").getroot()
    assert [suite.get("name") for suite in suites.findall("testsuite")] == ["orders", "other"]
    assert suites.get("tests") == "4"


def test_one_of_several_sets_fails(folder: Path) -> None:
    """Every set has to pass."""
    eval_set(case("d1", answer="other"), eval_set_id="other").to_file("other.json")
    assert run(sets="set.json other.json") == 1


def test_single_outputs(folder: Path) -> None:
    """The JSON output of one set is a report."""
    assert run("--json-output", "deep/one.json", "--junit-output", "deep/one.xml", "--no-report") == 0
    assert EvalReport.from_file("deep/one.json").gate_passed
    assert ElementTree.parse("deep/one.xml").getroot().get("failures") == "0"


def test_sets_of_the_same_name(folder: Path, capsys: Capture) -> None:
    """Two sets whose report files would have the same name are refused; with the time in the name they are not."""
    write_config(folder, "same.json", reporter={"timestamp_files": False})
    assert run(config="same.json", sets="set.json set.json") == 2
    assert "two eval sets would write to the report files orders.*" in capsys.readouterr().err
    assert run(config="same.json", sets="set.json other.json") == 0
    assert run("--no-report", config="same.json", sets="set.json set.json") == 0
    assert run("--output-dir", "twice", sets="set.json set.json") == 0
    assert len(written(folder / "twice")) == 2


def test_min_pass_rate(folder: Path) -> None:
    """The gate is the config's."""
    write_config(folder, "lenient.json", min_pass_rate=0.5)
    assert run("--id", "c1", "--id", "c2", config="lenient.json", agent="cli_agents:every_other") == 0


@pytest.mark.parametrize("option", ["--json-output", "--junit-output", "--output-dir"])
def test_outputs_that_cannot_be_written(folder: Path, capsys: Capture, option: str) -> None:
    """A report that could not be written is exit code 1; the verdict is shown all the same."""
    (folder / "file").touch()
    assert run(option, "file/x") == 1
    printed = capsys.readouterr()
    assert "PASSED: 3 of 3 cases passed" in printed.out
    assert "file/x" in printed.err
    assert "cannot be written" in printed.err


def test_default_config(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a config the default one is used; a judge that is missing is an error of its criterion."""
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    assert main(["run", "other.json", "--agent", "cli_agents:ok", "--json-output", "x.json", "--no-report"]) == 1
    result = EvalReport.from_file("x.json").results[0]
    assert {r.criterion for r in result.criterion_results} == {"tool_trajectory_avg_score", "response_match_score"}
    assert result.error_kind == "judge"


# Files that cannot be used


BAD_FILES = {
    "missing.json": None,
    "blank.json": b"",
    "latin.json": '{"name": "é"}'.encode("latin-1"),
    "binary.json": bytes(range(256)),
    "truncated.json": b'{"eval_cases": [{"eval_id": ',
    "list.json": b"[]",
    "number.json": b"7",
    "keys.json": b'{"evalSetId": "x", "eval_cases": [{"conversation": []}]}',
    "deep.json": b"[" * 100_000,
    "nul.json": b'{"name": "\x00"}',
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("command", ["run", "config", "check", "list", "report", "template", "journal"])
def test_no_traceback(folder: Path, capsys: Capture, name: str, command: str) -> None:
    """No file makes a command end with a traceback: it is named, with exit code 2."""
    content = BAD_FILES[name]
    if command == "journal":
        name = f"{name}l"
    if content is not None:
        (folder / name).write_bytes(content)
    commands = {
        "run": ["run", name, "--config", "config.json", "--agent", "cli_agents:ok"],
        "config": ["run", "set.json", "--config", name, "--agent", "cli_agents:ok"],
        "template": ["report", name, "--template", name],
        "journal": ["report", name],
    }
    assert main(commands.get(command, [command, name])) == 2
    printed = capsys.readouterr()
    assert name in printed.err
    assert "Traceback" not in printed.err


def test_folder_as_a_file(folder: Path, capsys: Capture) -> None:
    """A folder is not a file."""
    (folder / "sets").mkdir()
    assert run(sets="sets") == 2
    assert "sets: this is a directory" in capsys.readouterr().err


def test_all_problems_at_once(folder: Path, capsys: Capture) -> None:
    """The problems of all files are shown in one go, and nothing is run."""
    (folder / "bad.json").write_text('{"criteria": {"trajectry": {}}, "timeout": -1}', encoding="utf-8")
    (folder / "bad_set.json").write_text('{"cases": []}', encoding="utf-8")
    assert main(["run", "bad_set.json", "gone.json", "--config", "bad.json", "--agent", "cli_agents:ok"]) == 2
    printed = capsys.readouterr().err
    for part in ("trajectry", "bad.json: timeout", "bad_set.json: cases", "gone.json: eval set file not found"):
        assert part in printed


def test_missing_template(folder: Path, capsys: Capture) -> None:
    """A template that the config names has to be there, before anything is run."""
    write_config(folder, "template.json", reporter={"templates": ["gone.md.j2"]})
    assert run(config="template.json") == 2
    assert "template.json: reporter.templates[0]: there is no file 'gone.md.j2'" in capsys.readouterr().err
    assert main(["check", "template.json"]) == 2


# check


def test_check(folder: Path, capsys: Capture) -> None:
    """Files that are in order are told so, each as what it is."""
    assert main(["check", "set.json", "config.json", "other.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "set.json: ok (eval set 'orders', 3 cases, 3 turns)",
        "config.json: ok (config, criteria: exact_match)",
        "other.json: ok (eval set 'other', 1 case, 1 turn)",
    ]


def test_check_shows_everything(folder: Path, capsys: Capture) -> None:
    """Every problem of every file, the good files too, and exit code 2."""
    (folder / "bad.json").write_text(
        '{"eval_cases": [{"eval_id": "a", "conversation": []}, {"eval_id": "a", "colour": 1, "conversation": 7}]}',
        encoding="utf-8",
    )
    (folder / "my_config.json").write_text("{nonsense", encoding="utf-8")
    (folder / "empty_config.json").write_text("{}", encoding="utf-8")
    assert main(["check", "bad.json", "set.json", "my_config.json", "empty_config.json", "gone.json"]) == 2
    printed = capsys.readouterr()
    assert "set.json: ok" in printed.out
    assert "empty_config.json: ok (config, criteria: none)" in printed.out
    for part in ("eval_cases[1].colour", "eval_cases[1].conversation", "my_config.json: line 1", "gone.json"):
        assert part in printed.err


def test_check_warns(folder: Path, capsys: Capture) -> None:
    """What deserves a look is a warning and no error."""
    eval_set(case("a"), case("A")).to_file("set.json")
    assert main(["check", "set.json"]) == 0
    assert capsys.readouterr().err == "warning: set.json: ids 'a' and 'A' differ only in case\n"


# list


def test_list(folder: Path, capsys: Capture) -> None:
    """The cases of each set, with what they can be selected by."""
    skipped = case("d1", skip="later")
    skipped.conversation *= 2
    eval_set(skipped, eval_set_id="other").to_file("other.json")
    assert main(["list", "set.json", "other.json", "--json-output", "deep/list.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "orders: 3 cases",
        "  c1  Case c1  1 turn  #smoke #fast",
        "  c2  Case c2  1 turn  #smoke",
        "  c3  Case c3  1 turn",
        "other: 1 case",
        "  d1  2 turns  skipped: later",
    ]
    listed = json.loads(Path("deep/list.json").read_text(encoding="utf-8"))
    assert listed[0]["cases"][0] == {"eval_id": "c1", "name": "Case c1", "tags": ["smoke", "fast"]}


def test_list_selected(folder: Path, capsys: Capture) -> None:
    """The same selection as for a run."""
    assert main(["list", "set.json", "--tag", "fast"]) == 0
    assert "c2" not in capsys.readouterr().out
    assert main(["list", "set.json", "--tag", "slow"]) == 2
    assert "known tags: smoke, fast" in capsys.readouterr().err


# schema


def unknown_keys(value: Any, schema: dict[str, Any], defs: dict[str, Any]) -> set[str]:
    """The keys of a value that a schema does not allow."""
    if "$ref" in schema:
        return unknown_keys(value, defs[schema["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in schema:
        found = [unknown_keys(value, choice, defs) for choice in schema["anyOf"]]
        return next((keys for keys in found if not keys), found[0])
    if isinstance(value, list):
        return {key for item in value for key in unknown_keys(item, schema.get("items", {}), defs)}
    known = schema.get("properties", {})
    if not isinstance(value, dict) or not known:
        return set()
    inner = {key for name in value.keys() & known.keys() for key in unknown_keys(value[name], known[name], defs)}
    return inner | {str(key) for key in value.keys() - known.keys()}


MODELS: dict[str, type[BaseModel]] = {"evalset": EvalSet, "config": EvalConfig, "report": EvalReport}


@pytest.mark.parametrize("kind", MODELS)
def test_schema(folder: Path, capsys: Capture, kind: str) -> None:
    """The schema of each format is JSON Schema with every field, closed, and says what fields mean."""
    assert main(["schema", kind]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert described["additionalProperties"] is False
    names = {info.alias or name for name, info in MODELS[kind].model_fields.items()}
    assert described["properties"].keys() == names


def test_schema_and_files(folder: Path, capsys: Capture) -> None:
    """Files that load have only keys that their schema knows, at every level."""
    run()
    files = {"evalset": folder / "set.json", "config": folder / "config.json"}
    files["report"] = next((folder / "out").iterdir())
    for kind, path in files.items():
        capsys.readouterr()
        main(["schema", kind])
        described = json.loads(capsys.readouterr().out)
        value = json.loads(path.read_text(encoding="utf-8"))
        assert unknown_keys(value, described, described["$defs"]) == set()
        assert unknown_keys(value | {"colour": 1}, described, described["$defs"]) == {"colour"}


def test_schema_files(folder: Path, capsys: Capture) -> None:
    """All schemas as files; a file may name its own."""
    assert main(["schema", "--output-dir", "schemas"]) == 0
    names = ["config.schema.json", "evalset.schema.json", "report.schema.json"]
    assert sorted(path.name for path in (folder / "schemas").iterdir()) == names
    loaded = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(
        json.dumps({"$schema": "schemas/config.schema.json", **loaded}), encoding="utf-8"
    )
    assert run() == 0


# report


@pytest.fixture
def saved(folder: Path, capsys: Capture) -> str:
    """A saved report in which a case failed."""
    eval_set(case("c1"), case("c2", answer="other"), eval_set_id="orders").to_file("set.json")
    run("--json-output", "saved.json", "--no-report")
    capsys.readouterr()
    return "saved.json"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ([], "FAILED: 1 of 2 cases passed"),
        (["--format", "console"], "FAILED   c2"),
        (["--verbose"], "PASSED   c1"),
        (["--format", "json"], '"eval_set_id": "orders"'),
        (["--format", "html"], "<!doctype html>"),
        (["--format", "junit"], "<testsuites"),
        (["--template", str(ROOT / "reporters" / "summary.md.j2")], "orders"),
    ],
)
def test_report(saved: str, capsys: Capture, options: list[str], part: str) -> None:
    """A saved report in every form, printed or written to a file with the same text."""
    assert main(["report", saved, *options]) == 0
    printed = capsys.readouterr().out
    assert part.lower() in printed.lower()
    assert main(["report", saved, *options, "--output", "deep/made.txt"]) == 0
    assert capsys.readouterr().out == "deep/made.txt\n"
    made = Path("deep/made.txt").read_text(encoding="utf-8")
    assert part.lower() in made.lower()


def test_report_as_json_is_the_same(saved: str, capsys: Capture) -> None:
    """JSON of JSON is the same report."""
    assert main(["report", saved, "--format", "json", "--output", "again.json"]) == 0
    assert EvalReport.from_file("again.json") == EvalReport.from_file(saved)


@pytest.mark.parametrize("text", ["{{ nothing.there }}", "{% if %}", "{{ 1 / 0 }}"])
def test_template_that_fails(saved: str, capsys: Capture, text: str) -> None:
    """A template that does not work is named."""
    Path("own.j2").write_text(text, encoding="utf-8")
    assert main(["report", saved, "--template", "own.j2"]) in (1, 2)
    printed = capsys.readouterr().err
    assert "own.j2" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "saved.json", "--format", "json", "--output", "file/x"],
        ["list", "set.json", "--json-output", "file/x"],
        ["schema", "--output-dir", "file/x"],
    ],
)
def test_results_that_cannot_be_written(saved: str, capsys: Capture, arguments: list[str]) -> None:
    """A file that cannot be written is exit code 1."""
    Path("file").touch()
    assert main(arguments) == 1
    assert "error: file/x" in capsys.readouterr().err


# As a process


def test_version(capsys: Capture) -> None:
    """The version."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"agentflow-eval, version {__version__}\n"


def test_help(capsys: Capture) -> None:
    """Every command explains itself."""
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    for command in ("run", "check", "list", "schema", "report"):
        assert f"\n  {command} " in listed
        assert main([command, "-h"]) == 0
        assert "Usage: agentflow-eval" in capsys.readouterr().out


def test_help_is_quick() -> None:
    """Help does not load what it does not need."""
    process("--help")
    began = os.times()
    made = process("--help")
    ended = os.times()
    assert ended.children_user + ended.children_system - began.children_user - began.children_system < 1.0
    assert made.returncode == 0
    assert made.stdout.startswith("Usage: agentflow-eval")
    program = "import sys\nfrom agentflow_eval.cli import main\nmain(['--help'])\nprint(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr.split()
    assert {"jinja2", "langgraph", "openai", "pydantic", "rich", "asyncio"} & set(loaded) == set()


@pytest.mark.parametrize("agent", ["hangs", "hangs_in_a_pool"])
def test_agent_that_hangs(folder: Path, agent: str) -> None:
    """A thread that hangs does not keep the process alive."""
    began = time.monotonic()
    made = process("run", "other.json", "--config", "config.json", "--agent", f"cli_agents:{agent}", "--timeout", "0.1")
    assert made.returncode == 1, made.stderr
    assert "the agent timed out after 0.1 s" in made.stdout
    assert "Traceback" not in made.stderr
    assert time.monotonic() - began < 50


def test_encoding_of_the_terminal(folder: Path) -> None:
    """A terminal that cannot show a character gets an escape, not a traceback."""
    eval_set(case("c1", answer="✓ 😀 你好"), eval_set_id="s").to_file("set.json")
    environment = os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    command = ["run", "set.json", "--config", "config.json", "--agent", "cli_agents:ok", "-v"]
    made = process(*command, env=environment, encoding="cp1252")
    assert made.returncode == 1
    assert "FAILED" in made.stdout
    assert "Traceback" not in made.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe that breaks")
def test_broken_pipe(folder: Path) -> None:
    """A reader that goes away is no traceback."""
    eval_set(*numbered(5000)).to_file("set.json")
    command = [sys.executable, "-m", "agentflow_eval", "list", "set.json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "s: 5000 cases\n"
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("| true", 1, ""),
        (">/dev/full", 1, "error: [Errno 28] No space left on device\n"),
    ],
)
def test_output_that_goes_nowhere(folder: Path, redirected: str, code: int, said: str) -> None:
    """Closed streams are as good as /dev/null; a full disk or a reader that left is exit code 1; no traceback."""
    command = f"{sys.executable} -m agentflow_eval list set.json {redirected}; exit ${{PIPESTATUS[0]}}"
    made = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert made.returncode == code
    assert made.stderr == said


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(("redirected", "code"), [(">&-", 0), (">/dev/full", 1)])
def test_run_without_a_terminal(folder: Path, redirected: str, code: int) -> None:
    """A run writes its files even when nobody sees the rest; a console report that was lost is exit code 1."""
    command = f"{sys.executable} -m agentflow_eval run set.json --config config.json --agent cli_agents:tells"
    made = subprocess.run(["bash", "-c", f"{command} {redirected}"], capture_output=True, text=True, timeout=120)
    assert made.returncode == code
    assert "Traceback" not in made.stderr
    assert len(written(folder / "out")) == 1


def started(*options: str, agent: str, sets: str = "set.json") -> subprocess.Popen[str]:
    """A run in a process of its own, once its third case has begun."""
    command = [
        sys.executable,
        "-m",
        "agentflow_eval",
        "run",
        *sets.split(),
        "--config",
        "config.json",
        "--agent",
        agent,
    ]
    running = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 100
    while not Path("third").exists():
        assert time.monotonic() < until
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)
    time.sleep(0.02)
    return running


def interrupted(running: subprocess.Popen[str]) -> str:
    """What a run prints on standard error until it has taken note of a first Ctrl-C."""
    assert running.stderr is not None
    running.send_signal(signal.SIGINT)
    said = ""
    while "stopping" not in said:
        line = running.stderr.readline()
        assert line, said
        said += line
    return said


posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")


@posix
def test_first_interrupt(folder: Path) -> None:
    """The first Ctrl-C lets running cases end, begins no other, writes everything, and exits with 130."""
    eval_set(*numbered(5), eval_set_id="orders").to_file("set.json")
    running = started("--junit-output", "j.xml", agent="cli_agents:waits", sets="set.json other.json")
    assert "stopping: no new cases, running ones finish" in interrupted(running)
    Path("go on").touch()
    out, err = running.communicate(timeout=100)
    assert running.returncode == 130, err
    assert "INTERRUPTED" in out
    assert "Traceback" not in err
    (report,) = written(folder / "out")
    assert [result.error_kind for result in report.results] == [None, None, None, "not_run", "not_run"]
    assert (report.summary.passed_cases, report.interrupted, report.gate_passed) == (3, True, False)
    suites = ElementTree.parse("j.xml").getroot()
    assert [suite.get("name") for suite in suites.findall("testsuite")] == ["orders", "other"]
    assert (suites.get("tests"), suites.get("errors")) == ("6", "3")
    assert not list((folder / "out").glob("*.partial.jsonl"))


@posix
def test_interrupt_in_the_last_case(folder: Path) -> None:
    """When the set was just complete, the next one is not begun all the same."""
    running = started("--json-output", "all.json", agent="cli_agents:waits", sets="set.json other.json")
    interrupted(running)
    Path("go on").touch()
    out, err = running.communicate(timeout=100)
    assert running.returncode == 130, err
    assert "PASSED: 3 of 3 cases passed" in out
    first, second = json.loads(Path("all.json").read_text(encoding="utf-8"))["reports"]
    assert (first["interrupted"], second["interrupted"]) == (False, True)
    assert [result["error_kind"] for result in second["results"]] == ["not_run"]


@posix
def test_second_interrupt(folder: Path) -> None:
    """The second Ctrl-C ends the running cases too; what was earned is written."""
    eval_set(*numbered(5), eval_set_id="orders").to_file("set.json")
    running = started(agent="cli_agents:hangs_at_third")
    interrupted(running)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=100)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "INTERRUPTED" in out
    (report,) = written(folder / "out")
    assert [result.error_kind for result in report.results] == [None, None, "cancelled", "not_run", "not_run"]


@posix
def test_killed(folder: Path, capsys: Capture) -> None:
    """A run that is killed leaves its results in a journal that ``report`` reads, even when its last line is torn."""
    running = started(agent="cli_agents:hangs_at_third")
    running.kill()
    running.communicate(timeout=100)
    (journal,) = (folder / "out").iterdir()
    assert journal.name.endswith(".partial.jsonl")
    with journal.open("ab") as stream:
        stream.write(b'{"eval_id": "c3", "pass')
    assert main(["report", str(journal), "-v"]) == 0
    printed = capsys.readouterr().out
    assert "PASSED   c1" in printed
    assert "PASSED   c2" in printed
    assert "INTERRUPTED" in printed
    assert main(["report", str(journal), "--format", "json", "--output", "saved.json"]) == 0
    assert [result.eval_id for result in EvalReport.from_file("saved.json").results] == ["c1", "c2"]


@posix
def test_interrupt_while_the_agent_is_imported(folder: Path) -> None:
    """Ctrl-C before anything runs is one word and exit code 130."""
    Path("cli_slow.py").write_text("import time\nopen('third', 'w').close()\ntime.sleep(30)\n", encoding="utf-8")
    running = started(agent="cli_slow:ok")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=100)
    assert running.returncode == 130, err
    assert err.strip() == "interrupted"


def test_unknown_selector_beside_a_known_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An id that no case has is an error even when another id selects a case."""
    path = tmp_path / "s.json"
    EvalSet(eval_set_id="s", eval_cases=[EvalCase.single_turn("first", "q"), EvalCase.single_turn("second", "q")]).save(
        path
    )
    assert main(["list", str(path), "--id", "first", "--id", "secnod"]) == 2
    assert "no case has the id 'secnod'; did you mean 'second'?" in capsys.readouterr().err
