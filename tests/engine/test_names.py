"""What targets, checks and fixtures in eval sets stand for: names in files, objects in Python."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval.cli import main
from agentflow_eval.dataset import Check, EvalCase, EvalSet
from agentflow_eval.errors import AgentImportError, LoadError, TargetError, UsageError
from agentflow_eval.evaluator import AgentEvaluator
from tests.engine.runs import NO_REPORTS, case, config, eval_set, ok, outcomes, run

MODULE = """
import contextlib

async def agent(text):
    return "main"

async def billing(text, db):
    return f"billing {db}"

def is_short(ctx):
    return len(ctx.response) < 20 or f"{len(ctx.response)} characters"

async def overlap(ctx):
    return 0.8

@contextlib.contextmanager
def db(case):
    yield f"db of {case.eval_id}"

number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the module ``theirs``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "theirs.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("theirs", None)


def write(name: str, content: dict[str, Any]) -> str:
    """A JSON file in the working directory."""
    Path(name).write_text(json.dumps(content))
    return name


def a_set(*cases: dict[str, Any]) -> str:
    """An eval set of one-turn cases."""
    turn = {"user_content": {"role": "user", "content": "hi"}}
    listed = [
        {"eval_id": f"c{n}", "conversation": [turn | one.pop("turn", {})]} | one for n, one in enumerate(cases, 1)
    ]
    return write("cases.evalset.json", {"eval_set_id": "s", "eval_cases": listed})


def a_config(**settings: Any) -> str:
    """A config that writes no reports."""
    return write("config.json", {"reporter": {"enabled": False}} | settings)


NAMES = {
    "targets": {"billing": "theirs:billing"},
    "checks": {"is_short": "theirs:is_short", "overlap": "theirs:overlap"},
    "fixtures": {"db": "theirs:db"},
}


def test_names_in_files(folder: Path) -> None:
    """A case's target, fixtures and checks, and a turn's checks, are found by the names of the config."""
    first = {"target": "billing", "fixtures": ["db"], "checks": ["is_short"]}
    second = {"turn": {"checks": ["is_short", {"name": "overlap", "threshold": 0.8}]}}
    code = main(
        ["run", a_set(first, second), "--config", a_config(agent="theirs:agent", **NAMES), "--json-output", "out.json"]
    )
    results = json.loads(Path("out.json").read_text())["results"]
    assert code == 0
    assert [result["actual_response"] for result in results] == ["billing db of c1", "main"]
    assert [r["criterion"] for r in results[1]["criterion_results"]] == ["check:is_short", "check:overlap"]


def test_a_check_that_fails_is_exit_code_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A case whose check fails has failed, and the console says why."""
    settings = {"agent": "theirs:agent", "reporter": {"json_report": False, "html": False}} | NAMES
    code = main(["run", a_set({"checks": ["overlap"]}), "--config", a_config(**settings)])
    out = capsys.readouterr().out
    assert code == 1
    assert "check:overlap scored 0.80, needs 1.00" in out


def test_unknown_names_are_load_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that the config does not define are told all at once, with the near ones, before anything runs."""
    path = a_set(
        {"target": "biling", "fixtures": ["db", "cache"], "checks": ["short"]}, {"turn": {"checks": ["overlaps"]}}
    )
    assert main(["run", path, "--config", a_config(agent="nowhere:agent", **NAMES)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "cases.evalset.json: eval_cases[0].target: 'biling' is not among the config's targets; did you mean 'billing'? "
        "(known: billing)",
        "cases.evalset.json: eval_cases[0].fixtures[1]: 'cache' is not among the config's fixtures (known: db)",
        "cases.evalset.json: eval_cases[0].checks[0]: 'short' is not among the config's checks; did you mean "
        "'is_short'? (known: is_short, overlap)",
        "cases.evalset.json: eval_cases[1].conversation[0].checks[0]: 'overlaps' is not among the config's checks; did "
        "you mean 'overlap'? (known: is_short, overlap)",
    ]


def test_names_without_a_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a config that defines the names does not start, and says where they belong."""
    assert main(["run", a_set({"checks": ["is_short"]}), "--agent", "theirs:agent"]) == 2
    assert capsys.readouterr().err == (
        "cases.evalset.json: eval_cases[0].checks[0]: nothing is named 'is_short': the config has no checks; give it "
        "checks (name -> module:attribute)\n"
    )
    assert main(["list", "cases.evalset.json"]) == 0


def test_check_command_compares_sets_with_configs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` says so of a config and a set together, in any order; of a set alone it cannot know."""
    path, good = a_set({"checks": ["is_short"]}), a_config(**NAMES)
    other = write("other_config.json", {"checks": {"x": "a:b"}})
    assert main(["check", path]) == 0
    assert main(["check", path, good]) == 0
    assert main(["check", other, path, good]) == 0
    capsys.readouterr()
    assert main(["check", path, other]) == 2
    assert "eval_cases[0].checks[0]: 'is_short' is not among the config's checks (known: x)" in capsys.readouterr().err
    broken = write("broken_config.json", {"checks": {"x": "nothing"}})
    assert main(["check", path, broken]) == 2
    assert capsys.readouterr().err == (
        "broken_config.json: checks.x: must be module:attribute such as my_package.my_module:my_function, got "
        "'nothing'\n"
    )


def test_everything_that_cannot_be_imported_is_told_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that lead nowhere are exit code 2 before anything runs; those that no case uses are not imported."""
    names = {
        "targets": {"t": "theirs:nobody", "n": "theirs:number", "unused": "nowhere:agent"},
        "checks": {"c": "their:is_short", "n": "theirs:number"},
        "fixtures": {"f": "theirs:dbs", "n": "theirs:number"},
    }
    path = a_set(
        {"target": "t", "fixtures": ["f", "n"], "checks": ["c", "n"]},
        {"target": "n"},
        {"target": "unused", "skip": "x"},
    )
    assert main(["run", path, "--config", a_config(agent="theirs:agent", **names)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" (searched")[0] for line in lines] == [
        "error: targets['t'] 'theirs:nobody': 'theirs' has no 'nobody'",
        "fixtures['f'] 'theirs:dbs': 'theirs' has no 'dbs'; did you mean 'db'?",
        "fixtures['n'] 'theirs:number' must be a function or a context manager, got int",
        "checks['c'] 'their:is_short': there is no module 'their'",
        "checks['n'] 'theirs:number' must be a function of the context, got int",
        "targets['n'] 'theirs:number': cannot drive builtins.int: an agent is a compiled LangGraph graph, an object "
        "with `ainvoke`, or a function such as `async def agent(text): ...`",
    ]


def test_a_mock_run_knows_the_names_and_imports_nothing(folder: Path) -> None:
    """In a mock run the names have to be defined, but not to lead anywhere."""
    one = case(target="t", fixtures=["f"], checks=[Check(name="c")])
    names: dict[str, Any] = {"targets": {"t": "no:t"}, "fixtures": {"f": "no:f"}, "checks": {"c": "no:c"}}
    assert outcomes(run(None, one, mock_mode=True, **names)) == ["passed"]
    with pytest.raises(UsageError, match="nothing is named 't'"):
        run(None, one, mock_mode=True)


async def other(text: str) -> str:
    return "other"


def test_objects_in_python() -> None:
    """Objects and module:attribute names given to the evaluator win over the config's."""
    named = {"targets": {"other": other}, "checks": {"c": lambda ctx: ctx.response == "other", "d": "builtins:bool"}}
    one = case(answer="other", target="other", checks=[Check(name="c"), Check(name="d")])
    assert outcomes(run(ok, one, case("c2"), named=named, checks={"c": "no:where"})) == ["passed", "passed"]


def test_without_an_agent_every_case_names_its_target() -> None:
    """An evaluator with targets needs no agent; a case that names none of them is a usage error."""
    named = {"targets": {"other": other}}
    assert outcomes(run(None, case(answer="other", target="other"), named=named)) == ["passed"]
    with pytest.raises(UsageError, match=r"eval_cases\[1\].target: no agent is given, so the case has to name its"):
        run(None, case(target="other"), case("c2"), named=named)


def test_command_without_an_agent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command needs no agent either when the config has targets."""
    names = NAMES | {"targets": {"main": "theirs:agent"}}
    path = a_set({"target": "main", "checks": ["is_short"]})
    assert main(["run", path, "--config", a_config(**names)]) == 0
    path = a_set({"checks": ["is_short"]})
    capsys.readouterr()
    assert main(["run", path, "--config", a_config(**names)]) == 2
    assert "cases.evalset.json: eval_cases[0].target: no agent is given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("objects", "error", "message"),
    [
        ({"checks": {"c": 3}}, UsageError, r"checks\['c'\] must be a function of the context, got int"),
        ({"fixtures": {"f": 3}}, UsageError, r"fixtures\['f'\] must be a function or a context manager, got int"),
        ({"targets": {"t": 3}}, TargetError, "cannot drive"),
    ],
)
def test_objects_that_will_not_do(objects: dict[str, Any], error: type[Exception], message: str) -> None:
    """An object that is not what its name is for is refused at once."""
    with pytest.raises(error, match=message):
        AgentEvaluator(ok, config=config(), **objects)


def test_unknown_names_in_python(tmp_path: Path) -> None:
    """`evaluate` names the file of the set where there is one, and `evaluate_case` the case."""
    one = case(checks=[Check(name="c")])
    evaluator = AgentEvaluator(ok, config=config(reporter=NO_REPORTS))
    with pytest.raises(UsageError, match=r"eval_cases\[0\].checks\[0\]: nothing is named 'c'"):
        evaluator.run_sync(eval_set(one))
    eval_set(one).to_file(tmp_path / "set.json")
    with pytest.raises(LoadError, match=r"set.json: eval_cases\[0\].checks\[0\]: nothing is named 'c'"):
        evaluator.run_sync(tmp_path / "set.json")
    with pytest.raises(UsageError, match=r"c1: checks\[0\]: nothing is named 'c'"):
        asyncio.run(evaluator.evaluate_case(one))
    lost = AgentEvaluator(ok, config=config(checks={"c": "no.where:c"}))
    with pytest.raises(AgentImportError, match="there is no module 'no'"):
        asyncio.run(lost.evaluate_case(one))
    assert lost.report is None


def test_long_lists_of_known_names_are_cut() -> None:
    """At most twenty of the known names are shown."""
    named = {"checks": {f"c{n}": ok for n in range(30)}}
    with pytest.raises(UsageError, match=r"c19, \.\.\.\)$"):
        run(ok, case(checks=[Check(name="zzz")]), named=named)


def test_round_trip(tmp_path: Path) -> None:
    """Names of a file are what is saved again; an object that says no more than a name becomes the name."""
    stated = {
        "eval_id": "a",
        "conversation": [{"user_content": {"role": "user", "content": "x"}, "checks": ["t"]}],
        "target": "q",
        "fixtures": ["db"],
        "checks": ["a", {"name": "b", "threshold": 0.8}, {"name": "c"}],
    }
    (tmp_path / "a.json").write_text(json.dumps({"eval_cases": [stated]}))
    first = EvalSet.from_file(tmp_path / "a.json")
    first.to_file(tmp_path / "b.json")
    assert EvalSet.from_file(tmp_path / "b.json").eval_cases == first.eval_cases
    written = json.loads((tmp_path / "b.json").read_text())["eval_cases"][0]
    assert written == stated | {"checks": ["a", {"name": "b", "threshold": 0.8}, "c"]}
    filled = EvalSet(eval_set_id="s", eval_cases=[EvalCase.single_turn("a", "x")])
    filled.eval_cases[0].checks.append(Check(name="late"))
    filled.to_file(tmp_path / "c.json")
    assert EvalSet.from_file(tmp_path / "c.json").eval_cases[0].checks == [Check(name="late")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"checks": [{"name": "b", "treshold": 0.8}]}, 'checks[0].treshold: unknown key; did you mean "threshold"?'),
        ({"checks": [3]}, "checks[0]: must be the name of a check, or an object with name and threshold"),
        ({"checks": [""]}, "checks[0].name: must be text that is not empty"),
        ({"checks": [{"name": "b", "threshold": 1.5}]}, "checks[0].threshold: must be less than or equal to 1"),
        ({"checks": ["a", {"name": "a"}]}, "checks[1]: 'a' is named at [0] already; keep one of the two"),
        ({"fixtures": ["a", "b", "a"]}, "fixtures[2]: 'a' is named at [0] already; keep one of the two"),
        ({"fixture": ["a"]}, 'fixture: unknown key; did you mean "fixtures"?'),
        ({"target": ""}, "target: must be text that is not empty"),
        (
            {"checks": ["t"], "conversation": [{"user_content": {"role": "user", "content": "x"}, "checks": ["t"]}]},
            "conversation[0].checks[0]: 't' checks the whole case already; keep one of the two",
        ),
    ],
)
def test_what_a_case_may_not_say(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    """Mistakes in the fields of a case are told with their place."""
    turn = {"user_content": {"role": "user", "content": "x"}}
    (tmp_path / "a.json").write_text(json.dumps({"eval_cases": [{"conversation": [turn]} | values]}))
    with pytest.raises(LoadError) as raised:
        EvalSet.from_file(tmp_path / "a.json")
    assert f"a.json: eval_cases[0].{message}" in str(raised.value)
