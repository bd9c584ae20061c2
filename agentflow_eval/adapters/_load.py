"""Finds an agent, or anything else, by name: ``module:attribute``."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from agentflow_eval.errors import AgentImportError, did_you_mean, exception_text

USUAL_NAMES = ("graph", "compiled_graph", "agent_graph", "app", "agent")


def import_agent(spec: str | ModuleType, what: str | None = None) -> Any:
    """The agent that ``module:attribute`` names; without an attribute the first of `USUAL_NAMES` that the module has.

    A function without parameters is called, and what it returns is the agent. The working directory is searched too.
    ``what`` says in messages what the agent is for.

    Raises:
        AgentImportError: It does not lead to an agent; the message says where it ends.
    """
    if isinstance(spec, ModuleType):
        return _made(_usual(spec), f"agent {spec.__name__!r}")
    what = what or f"agent {spec!r}"
    if not spec.partition(":")[2]:
        return _made(_usual(_module(spec.partition(":")[0], what)), what)
    return _made(import_object(spec, what), what)


def import_object(spec: str, what: str) -> Any:
    """What ``module:attribute`` names; the working directory is searched too.

    Args:
        spec: The name.
        what: What it is, for messages.

    Raises:
        AgentImportError: It does not lead to anything; the message says where it ends.
    """
    module_name, _, attribute = spec.partition(":")
    value: Any = _module(module_name, what)
    for name in attribute.split("."):
        try:
            value = getattr(value, name)
        except AttributeError as exc:
            raise AgentImportError(f"{what}: {_lacks(value, name)}") from exc
        except (Exception, SystemExit) as exc:  # a lazily built object runs a stranger's code
            raise AgentImportError(f"{what}: {name} could not be made: {exception_text(exc)}") from exc
    return value


def _module(name: str, what: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    if not name or name.endswith(".py") or "/" in name:
        shown = name.removesuffix(".py").strip("./").replace("/", ".") or "package.module"
        raise AgentImportError(f"{what}: write module:attribute with dots, such as {shown}:graph")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name and (name == exc.name or name.startswith(f"{exc.name}.")):
            raise AgentImportError(f"{what}: there is no module {exc.name!r} (searched from {here!r})") from exc
        raise AgentImportError(f"{what}: module {name!r} needs {exc.name!r}, which is not installed") from exc
    except (Exception, SystemExit) as exc:  # importing runs a stranger's code
        raise AgentImportError(f"{what}: module {name!r} fails on import: {exception_text(exc)}") from exc


def _lacks(owner: Any, name: str) -> str:
    public = [other for other in dir(owner) if not other.startswith("_")]
    near = did_you_mean(name, public)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{getattr(owner, '__name__', type(owner).__name__)!r} has no {name!r}{hint}"


def _usual(module: ModuleType) -> Any:
    for name in USUAL_NAMES:
        if hasattr(module, name):
            return getattr(module, name)
    names = ", ".join(USUAL_NAMES)
    raise AgentImportError(f"module {module.__name__!r} has none of {names}; name the agent as module:attribute")


def _made(agent: Any, what: str) -> Any:
    if not inspect.isfunction(agent) or inspect.signature(agent).parameters or inspect.iscoroutinefunction(agent):
        return agent
    try:
        return agent()
    except (Exception, SystemExit) as exc:  # a factory is a stranger's code
        raise AgentImportError(f"{what}: {agent.__name__}() failed: {exception_text(exc)}") from exc
