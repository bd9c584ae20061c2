from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar

import pytest

from agentflow_eval.adapters import adapt
from agentflow_eval.errors import MissingExtraError, TargetError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PatternResult(Generic[T]):
    """Made as executionkit 0.4 makes its own."""

    value: T


class Kit:
    __module__ = "executionkit.kit"

    async def turn(self, text: str) -> None:
        """Never called."""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="executionkit works from Python 3.13 on")
def test_python_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where executionkit cannot work, the reason is named before a case is run."""
    types: Any = ModuleType("executionkit.types")
    types.PatternResult = PatternResult
    monkeypatch.setitem(sys.modules, "executionkit", ModuleType("executionkit"))
    monkeypatch.setitem(sys.modules, "executionkit.types", types)
    with pytest.raises(TargetError, match=r"cannot run on Python 3\.1\d, .*TypeError: super\(type, obj\)"):
        adapt(Kit())


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without executionkit the extra is named."""
    monkeypatch.setitem(sys.modules, "executionkit", None)
    monkeypatch.setitem(sys.modules, "executionkit.types", None)
    from agentflow_eval.adapters import executionkit

    executionkit._check_works.cache_clear()
    with pytest.raises(MissingExtraError, match="the extra 'executionkit'"):
        adapt(Kit())
