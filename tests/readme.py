"""What the README tells a user to paste."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PASSED = "PASSED: 1 of 1 case passed"
README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    """The code blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def example_of(runtime: str) -> str:
    """The agent under the heading that a reader unfolds for a runtime."""
    text = README.read_text(encoding="utf-8")
    found = re.search(
        rf"<summary>{re.escape(runtime)}</summary>\n\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None, runtime
    return found[1]


def run_example(folder: Path, agent: str | None, config: str | None = None) -> str:
    """Pastes the README's eval set and config, and an agent, into a folder and runs them; what was printed.

    Raises:
        AssertionError: The run did not pass.
    """
    eval_set, usual = blocks("json")[:2]
    (folder / "capitals.evalset.json").write_text(eval_set, encoding="utf-8")
    (folder / "config.json").write_text(config or usual, encoding="utf-8")
    if agent is not None:
        (folder / "my_agent.py").write_text(agent, encoding="utf-8")
    command = [sys.executable, "-m", "agentflow_eval", "run", "capitals.evalset.json", "--config", "config.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
