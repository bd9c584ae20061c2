from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chat_server import Recorded, Reply, completion, serving
from tests.readme import PASSED, blocks, example_of, run_example


def test_function(tmp_path: Path) -> None:
    """The agent that the README begins with, by the command line and from Python."""
    agent, script = blocks("python")[:2]
    assert PASSED in run_example(tmp_path, agent)
    (tmp_path / "run.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "run.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=True)
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    "runtime", ["LangGraph", "tulip", "agno", "pydantic-ai", "OpenAI Agents SDK", "An object with ainvoke"]
)
def test_runtime(runtime: str, tmp_path: Path) -> None:
    """The example of a runtime runs as pasted; the others run with the Python that they need."""
    assert PASSED in run_example(tmp_path, example_of(runtime))


ANSWER = "The capital of France is Paris."


def with_endpoint(block: str, url: str) -> str:
    """The README's config with its criteria, and an endpoint of the README at another address."""
    endpoint = json.loads(block)["endpoint"] | {"url": url}
    config = json.loads(blocks("json")[1])
    del config["agent"]
    return json.dumps(config | {"endpoint": endpoint})


def test_chat_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config of a chat-completions API, with a server of ours behind it."""
    monkeypatch.setenv("SUPPORT_BOT_KEY", "k1")
    function = {"name": "lookup_capital", "arguments": '{"country": "France"}'}
    with serving([completion(ANSWER, tool_calls=[{"id": "1", "type": "function", "function": function}])]) as server:
        assert PASSED in run_example(tmp_path, None, with_endpoint(blocks("json")[2], server.url))
    assert server.requests[0].headers["authorization"] == "Bearer k1"


def test_json_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config of any other API, with a server of ours behind it."""
    monkeypatch.setenv("ASK_KEY", "k2")

    def reply(request: Recorded) -> Reply:
        assert request.body["message"] == "What is the capital of France?"
        steps = [{"type": "tool", "name": "lookup_capital", "input": {"country": "France"}}]
        return Reply(body={"reply": {"text": ANSWER, "steps": steps}})

    with serving([reply]) as server:
        assert PASSED in run_example(tmp_path, None, with_endpoint(blocks("json")[3], server.url))
    assert server.requests[0].headers["x-api-key"] == "k2"
