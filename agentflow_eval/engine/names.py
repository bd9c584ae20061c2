"""What the names of targets, checks and fixtures in an eval set stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentflow_eval.adapters import adapt
from agentflow_eval.adapters._load import import_agent, import_object
from agentflow_eval.config import EvalConfig, HttpEndpoint
from agentflow_eval.dataset import EvalCase
from agentflow_eval.errors import AgentImportError, MissingExtraError, Problem, TargetError, UsageError, did_you_mean

_KINDS = ("targets", "checks", "fixtures")
_NAMES_SHOWN = 20


class Names:
    """Targets, checks and fixtures by name: objects, or ``module:attribute`` until a case needs them.

    Args:
        config: Its names.
        objects: Kind (``targets``, ``checks``, ``fixtures``) -> name -> object; these win over the config's.

    Raises:
        UsageError: A check cannot be called, or a fixture can neither be called nor entered.
        TargetError: A target cannot be driven.
    """

    def __init__(self, config: EvalConfig, **objects: Mapping[str, Any] | None) -> None:
        self._known = {kind: {**getattr(config, kind), **(objects.get(kind) or {})} for kind in _KINDS}
        self._known["targets"] = {**config.endpoints, **self._known["targets"]}
        self._loaded: dict[tuple[str, str], Any] = {}
        for kind, given in objects.items():
            for name, value in (given or {}).items():
                if not isinstance(value, str):
                    self._loaded[kind, name] = self._usable(kind, value, f"{kind}[{name!r}]")

    @property
    def targets(self) -> list[str]:
        """The names of the targets."""
        return list(self._known["targets"])

    @property
    def fixtures(self) -> list[str]:
        """The names of the fixtures."""
        return list(self._known["fixtures"])

    def load(self, cases: Iterable[EvalCase]) -> dict[tuple[str, str], Any]:
        """Imports what the cases name; the targets, checks and fixtures by kind and name.

        Raises:
            AgentImportError: Some cannot be imported or used; the message lists them all.
        """
        problems: list[str] = []
        used = dict.fromkeys((kind, name) for case in cases if not case.skip for _, kind, name in _used(case))
        for kind, name in used:
            if (kind, name) in self._loaded:
                continue
            spec = self._known[kind][name]
            what = f"endpoints[{name!r}]" if isinstance(spec, HttpEndpoint) else f"{kind}[{name!r}] {spec!r}"
            try:
                found = _found(kind, spec, what)
                self._loaded[kind, name] = self._usable(kind, found, what)
            except (AgentImportError, MissingExtraError, TargetError, UsageError) as exc:
                problems.append(str(exc))
        if problems:
            raise AgentImportError("\n".join(problems))
        return {key: self._loaded[key] for key in used}

    def _usable(self, kind: str, value: Any, what: str) -> Any:
        """``value`` as what its kind has to be."""
        if kind == "targets":
            try:
                return adapt(value, fixtures=self.fixtures)
            except TargetError as exc:
                raise TargetError(f"{what}: {exc}") from exc
        if callable(value) or (kind == "fixtures" and (hasattr(value, "__enter__") or hasattr(value, "__aenter__"))):
            return value
        wanted = "a function of the context" if kind == "checks" else "a function or a context manager"
        raise UsageError(f"{what} must be {wanted}, got {type(value).__name__}")


def _found(kind: str, spec: str | HttpEndpoint, what: str) -> Any:
    if isinstance(spec, HttpEndpoint):
        return spec
    return import_agent(spec, what) if kind == "targets" else import_object(spec, what)


def unknown_names(cases: Sequence[EvalCase], known: Sequence[Names]) -> list[Problem]:
    """The names in the cases that none of ``known`` knows, each with the nearest one that is known."""
    there = {kind: list(dict.fromkeys(n for names in known for n in names._known[kind])) for kind in _KINDS}
    sets = {kind: set(names) for kind, names in there.items()}
    return [
        Problem(f"eval_cases[{index}].{place}", _unknown(kind, name, there[kind]))
        for index, case in enumerate(cases)
        for place, kind, name in _used(case)
        if name not in sets[kind]
    ]


def _used(case: EvalCase) -> Iterator[tuple[str, str, str]]:
    """Place, kind and name of everything that a case names."""
    if case.target is not None:
        yield "target", "targets", case.target
    for index, name in enumerate(case.fixtures):
        yield f"fixtures[{index}]", "fixtures", name
    for index, check in enumerate(case.checks):
        yield f"checks[{index}]", "checks", check.name
    for number, turn in enumerate(case.conversation):
        for index, check in enumerate(turn.checks):
            yield f"conversation[{number}].checks[{index}]", "checks", check.name


def _unknown(kind: str, name: str, there: list[str]) -> str:
    near = did_you_mean(name, there)
    hint = f"; did you mean {near!r}?" if near else ""
    shown = ", ".join(there[:_NAMES_SHOWN]) + (", ..." if len(there) > _NAMES_SHOWN else "")
    if not there:
        return f"nothing is named {name!r}: the config has no {kind}; give it {kind} (name -> module:attribute)"
    return f"{name!r} is not among the config's {kind}{hint} (known: {shown})"
