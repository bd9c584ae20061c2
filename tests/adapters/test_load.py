"""Finding an agent by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentflow_eval import AgentImportError
from agentflow_eval.adapters._load import USUAL_NAMES, import_agent

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules into a working directory of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def file(name: str, code: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)

    yield file
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("shop_agent:bot", "bot"),
        ("shop_agent:Shop.inner.bot", "nested"),
        ("shop_agent:make", "made"),
        ("shop_agent:with_options", "function"),
        ("shop_agent:later", "function"),
        ("shop_agent", "graph"),
        ("shop_agent:", "graph"),
        ("shop.pack.mod:bot", "deep"),
    ],
)
def test_found(write: Write, spec: str, value: str) -> None:
    """An attribute, a nested one, what a factory makes, or the usual name; searched in the working directory."""
    write(
        "shop_agent.py",
        """
bot, app, graph = "bot", "app", "graph"
class Shop:
    class inner:
        bot = "nested"
def make(): return "made"
def with_options(text="x"): ...
async def later(): ...
""",
    )
    write("shop/pack/mod.py", "bot = 'deep'")
    found = import_agent(spec)
    assert value == (found if isinstance(found, str) else type(found).__name__)


@pytest.mark.parametrize("name", USUAL_NAMES)
def test_usual_names(name: str) -> None:
    """A module's agent has one of the usual names."""
    module = ModuleType("some_agent")
    setattr(module, name, "found")
    assert import_agent(module) == "found"


def test_module_without_an_agent() -> None:
    """A module with none of the usual names says which they are."""
    with pytest.raises(AgentImportError, match="has none of graph, compiled_graph, agent_graph, app, agent; name the"):
        import_agent(ModuleType("some_agent"))


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("shop_agnt:bot", ["there is no module 'shop_agnt'", "searched from"]),
        ("shop_agent.sub:bot", ["there is no module 'shop_agent.sub'"]),
        ("no_such.sub:bot", ["there is no module 'no_such'"]),
        ("shop_agent:bott", ["'shop_agent' has no 'bott'; did you mean 'bot'?"]),
        ("shop_agent:zzz", ["'shop_agent' has no 'zzz'"]),
        ("shop_agent:bot.nope", ["'str' has no 'nope'"]),
        ("shop_agent:fails", ["fails() failed: ValueError: no key"]),
        ("shop_agent:exits", ["exits() failed: SystemExit: 3"]),
        ("shop_agent:lazy.broken", ["broken could not be made: RuntimeError: offline"]),
        ("shop_agent:lazy.exits", ["exits could not be made: SystemExit: 4"]),
        ("needs_more:bot", ["module 'needs_more' needs 'not_installed_xyz', which is not installed"]),
        ("breaks:bot", ["module 'breaks' fails on import: ZeroDivisionError"]),
        ("quits:bot", ["module 'quits' fails on import: SystemExit: 1"]),
        ("bad_syntax:bot", ["module 'bad_syntax' fails on import: SyntaxError"]),
        ("shop_agent.py:bot", ["write module:attribute with dots, such as shop_agent:graph"]),
        ("./agents/shop.py", ["such as agents.shop:graph"]),
        (":bot", ["such as package.module:graph"]),
        ("", ["such as package.module:graph"]),
        (".shop:bot", ["module '.shop' fails on import"]),
    ],
)
def test_not_found(write: Write, spec: str, parts: list[str]) -> None:
    """The message says where the way ends, and whose fault it is."""
    write(
        "shop_agent.py",
        """
bot = "bot"
def fails(): raise ValueError("no key")
def exits(): raise SystemExit(3)
class _Lazy:
    @property
    def broken(self): raise RuntimeError("offline")
    @property
    def exits(self): raise SystemExit(4)
lazy = _Lazy()
""",
    )
    write("needs_more.py", "import not_installed_xyz")
    write("breaks.py", "1 / 0")
    write("quits.py", "raise SystemExit(1)")
    write("bad_syntax.py", "def (")
    with pytest.raises(AgentImportError) as caught:
        import_agent(spec)
    assert isinstance(caught.value, ImportError)
    assert not [part for part in [repr(spec), *parts] if part not in str(caught.value)], str(caught.value)


def test_the_working_directory_is_searched_once(write: Write) -> None:
    """Importing twice does not grow the search path."""
    write("shop_agent.py", "bot: object = 5")
    found: list[Any] = [import_agent("shop_agent:bot") for _ in range(3)]
    assert found == [5, 5, 5]
    assert sys.path.count(str(Path.cwd())) == 1
