"""Renders judge prompts: untrusted text stands between delimiters that it cannot write."""

from __future__ import annotations

import json
import re
import secrets
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentflow_eval._files import printable, read_text
from agentflow_eval.errors import LoadError, Problem, exception_text

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).parent / "prompts"
_CANONICAL = "0" * 16
_MARK = "=== user ==="
_NAME = "<prompt>"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as it is sent, and as the cache knows it.

    Attributes:
        messages: The instructions and the question.
        canonical: The same text with the delimiters' random token left out.
        schema: JSON Schema of the verdict.
    """

    messages: tuple[dict[str, str], ...]
    canonical: str
    schema: dict[str, Any]

    @property
    def text(self) -> str:
        """The messages as one text."""
        return "\n\n".join(message["content"] for message in self.messages)

    @property
    def example(self) -> dict[str, Any]:
        """The verdict that is shown to the judge as an example."""
        return dict(self.schema.get("example", {}))

    @property
    def material(self) -> str:
        """The messages without the example."""
        return self.text.replace(_as_json(self.example), "")

    def repair(self, reply: str, problem: str) -> tuple[dict[str, str], ...]:
        """What is said after an unusable reply."""
        shape = _as_json(self.example)
        request = (
            f"That reply cannot be used: {problem}. Reply again with one JSON object and nothing else, like {shape}"
        )
        return ({"role": "assistant", "content": reply}, {"role": "user", "content": request})


def render(template: str, values: Mapping[str, Any], schema: dict[str, Any], path: str | None = None) -> Prompt:
    """The prompt of a criterion.

    Args:
        template: Name of the built-in template.
        values: What the template shows.
        schema: JSON Schema of the verdict; its ``example`` is shown to the judge.
        path: A template file of the user's instead.

    Raises:
        LoadError: The user's template is missing or broken; the message names the line.
    """
    made = _built_in(template) if path is None else _users(path, read_text(path, "prompt"))
    example = _as_json(schema.get("example", {}))
    token = secrets.token_hex(8)
    try:
        sent = printable(made.render(**values, token=token, example=example))
    except Exception as exc:  # a user's template may do anything that Jinja2 allows
        problem = Problem("", f"{_line_of(exc)}the prompt cannot be rendered: {exception_text(exc)}")
        raise LoadError(path or template, [problem]) from exc
    system, mark, user = sent.partition(_mark(token))
    if not mark:
        system, user = "You are a careful and impartial judge.", sent
    messages = ({"role": "system", "content": system.strip()}, {"role": "user", "content": user.strip()})
    return Prompt(messages, sent.replace(token, _CANONICAL), schema)


def check_prompt(template: str, path: str) -> None:
    """Raises `LoadError` when the user's template cannot be rendered in place of the built-in one, whatever is judged.

    It must be there, be valid Jinja2, and use no other variables than the built-in one, ``question`` and ``answer``.
    """
    from jinja2 import Environment, meta

    source = read_text(path, "prompt")
    _users(path, source)
    parse = Environment(autoescape=True).parse
    built_in = [parse((_FOLDER / name).read_text(encoding="utf-8")) for name in (f"{template}.j2", "_parts.j2")]
    known = {"question", "answer"}.union(*map(meta.find_undeclared_variables, built_in)) - {"token"}
    problems = [
        Problem("", f"line {_line_with(name, source)}: there is no {name!r} ({', '.join(sorted(known))})")
        for name in sorted(meta.find_undeclared_variables(parse(source)) - known - {"token"})
    ]
    if problems:
        raise LoadError(path, problems)


def _line_with(name: str, source: str) -> int:
    """The first line whose code uses a variable."""
    uses = re.compile(rf"{{[{{%][^}}]*\b{re.escape(name)}\b")
    found = uses.search(source)
    return 1 if found is None else source.count("\n", 0, found.end()) + 1


def _as_json(example: Mapping[str, Any]) -> str:
    return json.dumps(example, ensure_ascii=False)


def _mark(token: str) -> str:
    return f"{_MARK} {token}"


def _with_safe_mark(source: str) -> str:
    """The template with its mark made one that no text shown in it can write."""
    lines = source.splitlines()
    at = next((index for index, line in enumerate(lines) if line.strip() == _MARK), None)
    if at is None:
        return source
    return "\n".join([*lines[:at], _mark("{{ token }}"), *lines[at + 1 :]])


def _line_of(exc: BaseException) -> str:
    """Which line of the template raised."""
    frames = [frame for frame in traceback.extract_tb(exc.__traceback__) if frame.filename == _NAME]
    return f"line {frames[-1].lineno}: " if frames else ""


@cache
def _built_in(name: str) -> Template:
    import jinja2

    environment = jinja2.Environment(  # noqa: S701  # prompts are text, not HTML
        loader=jinja2.FileSystemLoader(_FOLDER), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = (_FOLDER / f"{name}.j2").read_text(encoding="utf-8")
    return environment.from_string(_with_safe_mark(source))


@lru_cache(maxsize=64)
def _users(path: str, source: str) -> Template:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=jinja2.FileSystemLoader(_FOLDER)
    )
    try:
        code = environment.compile(_with_safe_mark(source), filename=_NAME)
    except jinja2.TemplateSyntaxError as exc:
        raise LoadError(path, [Problem("", f"line {exc.lineno}: {exc.message}")]) from exc
    return jinja2.Template.from_code(environment, code, environment.make_globals(None))
