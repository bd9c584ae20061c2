from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval.cli import main
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import EvalConfig
from agentflow_eval.doctor import Diagnosis, Finding, diagnose


def findings(agent: Any, **options: Any) -> dict[str, Finding]:
    """What is found out about an agent, by topic."""
    return {finding.topic: finding for finding in asyncio.run(diagnose(agent, **options)).findings}


def wrong(found: dict[str, Finding]) -> list[str]:
    """The topics in which something is wrong."""
    return [topic for topic, finding in found.items() if finding.level == "wrong"]


async def good(text: str, run: TrajectoryCollector, messages: list[dict[str, str]]) -> str:
    """Reports everything and remembers its own conversation."""
    run.node("MAIN")
    with run.tool("look", {"for": text}) as call:
        await asyncio.sleep(0.01)
        call.result = f"about {text}"
    run.tokens({"input_tokens": 3, "output_tokens": 2})
    return f"{len(messages)}: {messages[0]['content']}"


def test_good_agent() -> None:
    """Everything is seen, and nothing has to be done."""
    found = findings(good)
    assert list(found) == ["runs", "answers", "nodes", "tools", "tokens", "isolation", "memory", "event loop"]
    assert {finding.level for finding in found.values()} == {"ok"}
    assert {finding.fix for finding in found.values()} == {""}


def test_silent_agent() -> None:
    """What is not reported is said with how to report it, and is not wrong by itself."""

    async def agent(text: str) -> str:
        return "hello"

    found = findings(agent)
    assert wrong(found) == []
    assert [topic for topic, f in found.items() if f.level == "note"] == ["nodes", "tools", "tokens", "memory"]
    assert "take a parameter `run`" in found["nodes"].fix
    assert "--message" in found["tools"].fix


def test_tool_without_a_result() -> None:
    """A call of which neither result nor error is recorded is said."""

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.tool("look", {"n": 1})
        return "hello"

    assert "neither result nor error of look" in findings(agent)["tools"].text


def test_memory_shared_by_conversations() -> None:
    """A global history shows one conversation to another."""
    history: list[str] = []

    async def agent(text: str) -> str:
        history.append(text)
        await asyncio.sleep(0.01)
        return " / ".join(history)

    found = findings(agent)
    assert wrong(found) == ["isolation"]
    assert "an earlier conversation turned up in the answers" in found["isolation"].text
    assert "not in a global" in found["isolation"].fix


def test_memory_shared_at_the_same_time() -> None:
    """A value that is kept in a global while the agent waits is overwritten by the other conversation."""
    now = {"text": ""}

    async def agent(text: str) -> str:
        now["text"] = text
        await asyncio.sleep(0.01)
        return now["text"]

    found = findings(agent)
    assert "a conversation at the same time turned up in the answers" in found["isolation"].text


def test_shared_recorder() -> None:
    """An agent that keeps the recorder of its first run reports to the wrong one."""
    kept: list[TrajectoryCollector] = []

    async def agent(text: str, run: TrajectoryCollector) -> str:
        kept.append(run)
        recorder = kept[-2] if len(kept) > 4 else run
        await asyncio.sleep(0.01)
        recorder.tool("look", {"for": text}, result=1)
        return "hello"

    found = findings(agent)
    assert wrong(found) == ["isolation"]
    assert "turned up in the tool calls" in found["isolation"].text
    assert "the recorder or the callback of this run" in found["isolation"].fix


def test_lost_events() -> None:
    """Conversations that went different ways are pointed out; an agent may do that."""
    runs: list[str] = []

    async def agent(text: str, run: TrajectoryCollector) -> str:
        runs.append(text)
        if len(runs) < 4:
            run.node("MAIN")
        return "hello"

    found = findings(agent)
    assert (found["isolation"].level, wrong(found)) == ("note", [])


def test_blocked_loop() -> None:
    """A blocking call in async code is found; the same call in a sync function is none."""

    async def agent(text: str) -> str:
        time.sleep(0.2)
        return "hello"

    found = findings(agent)
    assert wrong(found) == ["event loop"]
    assert "make the agent function sync" in found["event loop"].fix

    def polite(text: str) -> str:
        time.sleep(0.2)
        return "hello"

    assert wrong(findings(polite)) == []


def test_raising_agent() -> None:
    """What is raised is said."""

    async def agent(text: str) -> str:
        raise ValueError("no key")

    found = findings(agent)
    assert wrong(found) == ["runs", "answers"]
    assert "3 of 3 conversations broke: " in found["runs"].text
    assert "ValueError: no key" in found["runs"].text


def test_hanging_agent() -> None:
    """An agent that never ends is stopped, and the limit is named."""

    async def agent(text: str) -> str:
        await asyncio.sleep(60)
        return "late"

    found = findings(agent, timeout=0.05)
    assert "timed out after 0.05 s" in found["runs"].text
    assert "--timeout" in found["runs"].fix


def test_mute_agent() -> None:
    """An agent that answers nothing cannot be judged by what it says."""

    async def agent(text: str, run: TrajectoryCollector) -> None:
        run.node("MAIN")

    found = findings(agent)
    assert wrong(found) == ["answers"]
    assert found["answers"].text == "0 of 6 turns were answered"


def test_support_example() -> None:
    """The example is healthy and everything of it is seen."""
    from agentflow_eval.examples.support.agent import graph

    found = findings(graph, message="Where is order 1002?")
    assert {finding.level for finding in found.values()} == {"ok"}


def test_to_dict() -> None:
    """The diagnosis as values."""
    made = Diagnosis("X", [Finding("runs", "wrong", "t", "f")])
    assert made.to_dict() == {
        "healthy": False,
        "agent": "X",
        "findings": [{"topic": "runs", "level": "wrong", "text": "t", "fix": "f"}],
    }


# Command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an agent that shares its memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    agents = "said = []\nasync def leaky(text):\n    said.append(text)\n    return str(said)\n"
    agents += "async def fine(text):\n    return 'hello'\n"
    (tmp_path / "doctored_agents.py").write_text(agents)
    return tmp_path


def test_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 when nothing is wrong, 1 when something is; what and how to mend it in plain words."""
    assert main(["doctor", "--agent", "doctored_agents:fine"]) == 0
    assert capsys.readouterr().out.endswith("\nHEALTHY\n")
    assert main(["doctor", "--agent", "doctored_agents:leaky"]) == 1
    printed = capsys.readouterr().out
    assert "wrong  isolation: what the user said in an earlier conversation" in printed
    assert "       -> conversations share memory" in printed
    assert printed.endswith("NOT HEALTHY: verdicts about this agent cannot be trusted yet\n")


def test_agent_of_the_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The config can name the agent, and the findings can be JSON."""
    EvalConfig(agent="doctored_agents:fine").to_file(folder / "config.json")
    assert main(["doctor", "--config", "config.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agent"] == "FunctionTarget"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no agent: give --agent"),
        (["--agent", "doctored_agents:nobody"], "has no 'nobody'"),
        (["--agent", "doctored_agents:said"], "cannot drive builtins.list"),
        (["--agent", "doctored_agents:fine", "--timeout", "0"], "--timeout"),
    ],
)
def test_could_not_run(arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 when there is nothing to try out."""
    assert main(["doctor", *arguments]) == 2
    assert said in capsys.readouterr().err
