"""Reads and writes JSON models and report files, whole or not at all."""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import os
import re
import sys
import tempfile
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import jiter
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticSerializationError

from agentflow_eval.errors import LoadError, MissingFileError, Problem, ReportError, did_you_mean, exception_text

Model = TypeVar("Model", bound=BaseModel)

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_RESERVED_NAME = re.compile(r"con|prn|aux|nul|com\d|lpt\d", re.IGNORECASE | re.ASCII)
_LONGEST_NAME = 100
_DEEPEST = 200
"""Nesting that a file may have; the JSON parser beneath stops there too."""


def printable(text: str) -> str:
    r"""``text`` with what UTF-8 or XML cannot hold made visible: a lone surrogate becomes ``\ud83d``, NUL ``\x00``."""
    if text.isprintable():  # the common case, ten times as fast as the search
        return text
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe_name(text: str) -> str:
    """A file name made of ``text``: letters, digits, ``-`` and ``_`` only, at most 100 characters, never empty.

    Names of Windows devices such as ``con`` get a ``_`` at the end.

    Different texts may give the same name; whoever writes several files makes them unique.
    """
    name = _UNSAFE_IN_NAMES.sub("_", text)
    if _RESERVED_NAME.fullmatch(name):
        name = f"{name}_"
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
        name = f"{name[: _LONGEST_NAME - 9]}-{digest}"
    return name or "eval"


# Reading


def read_model(path: Path | str, cls: type[Model], what: str) -> Model:
    """The model in a JSON file (UTF-8, with or without BOM).

    Args:
        path: The file.
        cls: The model the file must hold.
        what: What the file is, for messages: ``eval set``, ``config``, ``report``.

    Raises:
        MissingFileError: The file does not exist.
        LoadError: Anything else is wrong; every problem of the file is in it.
    """
    name = os.fspath(path)
    raw = _read_bytes(path, name, what)
    if not raw.strip():
        raise LoadError(name, [Problem("", f"the {what} file is empty; it must hold one JSON object")])
    with _gc_paused():
        try:
            value = jiter.from_json(raw, catch_duplicate_keys=True)
        except ValueError:
            return _read_carefully(raw, name, cls, what)
        return _validated(value, name, cls)


def read_text(path: Path | str, what: str) -> str:
    """The text of a UTF-8 file.

    Raises:
        LoadError: The file is missing, unreadable, empty or not UTF-8.
    """
    name = os.fspath(path)
    text = _read_bytes(path, name, what).decode("utf-8")
    if not text.strip():
        raise LoadError(name, [Problem("", f"the {what} file is empty")])
    return text


@contextmanager
def _gc_paused() -> Iterator[None]:
    # Millions of new objects and no garbage: the cyclic collector alone would cost four times the parsing.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            # Through the permanent generation straight to the oldest: nothing new is looked through for garbage.
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def _read_bytes(path: Path | str, name: str, what: str) -> bytes:
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError as exc:
        raise MissingFileError(name, [Problem("", f"{what} file not found (working directory: {Path.cwd()})")]) from exc
    except IsADirectoryError as exc:
        raise LoadError(name, [Problem("", f"this is a directory; name the {what} file in it")]) from exc
    except (OSError, ValueError) as exc:
        raise LoadError(name, [Problem("", f"{what} file cannot be read: {exception_text(exc)}")]) from exc
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        message = f"not UTF-8: byte 0x{raw[exc.start]:02x} at line {line}; save the file as UTF-8"
        raise LoadError(name, [Problem("", message)]) from exc
    return raw


def _read_carefully(raw: bytes, name: str, cls: type[Model], what: str) -> Model:
    """The slow way: either every problem of the file, or a model whose text needed mending."""
    value = _parse(raw, name, what)
    return _validated(_mended(value), name, cls, _duplicate_keys(raw))


def _validated(value: Any, name: str, cls: type[Model], duplicates: Sequence[Problem] = ()) -> Model:
    problems = list(duplicates)
    try:
        model = cls.model_validate(value)
    except ValidationError as exc:
        raise LoadError(name, [*problems, *explain(exc, cls)]) from exc
    if problems:
        raise LoadError(name, problems)
    return model


def _parse(raw: bytes, name: str, what: str) -> Any:
    text = raw.decode("utf-8")
    try:
        value = json.loads(text)
        _check_depth(value)
        return value
    except RecursionError as exc:
        message = f"nested too deeply: objects and lists may be nested {_DEEPEST} levels at most"
        raise LoadError(name, [Problem("", message)]) from exc
    except json.JSONDecodeError as exc:
        raise LoadError(name, [Problem("", _syntax_message(text, exc, what))]) from exc
    except ValueError as exc:
        message = f"holds a number of more than {sys.get_int_max_str_digits()} digits; write it as text"
        raise LoadError(name, [Problem("", message)]) from exc


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise RecursionError


def _syntax_message(text: str, exc: json.JSONDecodeError, what: str) -> str:
    where = f"line {exc.lineno} column {exc.colno}"
    before = text[: exc.pos].rstrip()
    after = text[exc.pos :].lstrip()
    if exc.msg == "Extra data":
        return f"{where}: more text after the end of the object; the {what} file must hold one JSON object, not JSONL"
    if (before.endswith(",") and after[:1] in "}]") or "trailing comma" in exc.msg:
        return f"{where}: trailing comma: JSON allows no comma before }} or ]"
    if after.startswith(("//", "/*", "#")):
        return f"{where}: JSON has no comments; put notes into a description or metadata field"
    if after.startswith("'"):
        return f"{where}: JSON text stands in double quotes, not in single quotes"
    return f"{where}: not valid JSON: {exc.msg}"


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): _mended(item) for key, item in value.items()}
    return value


class _Repeated(dict[str, Any]):
    keys_seen_twice: list[str]


def _duplicate_keys(raw: bytes) -> list[Problem]:
    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = _Repeated(pairs)
        names = [key for key, _ in pairs]
        result.keys_seen_twice = sorted({key for key in names if names.count(key) > 1})
        return result

    problems: list[Problem] = []
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), json.loads(raw, object_pairs_hook=keep))]
    while stack:
        loc, value = stack.pop()
        if isinstance(value, _Repeated):
            problems += [
                Problem(dotted((*loc, key)), f'duplicate key "{key}": keep one of the two')
                for key in value.keys_seen_twice
            ]
            stack += [((*loc, key), item) for key, item in reversed(value.items())]
        elif isinstance(value, list):
            stack += [((*loc, index), item) for index, item in reversed(list(enumerate(value)))]
    return problems


# Explaining


def dotted(loc: Sequence[str | int]) -> str:
    """``("eval_cases", 0, "tags")`` as people write it: ``eval_cases[0].tags``."""
    place = ""
    for part in loc:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    return place


def explain(exc: ValidationError, cls: type[BaseModel]) -> list[Problem]:
    """Each problem of a validation error with its place, what was found, and what would be right."""
    return [_problem(error, cls) for error in exc.errors(include_url=False)]


def _problem(error: ErrorDetails, cls: type[BaseModel]) -> Problem:
    loc = error["loc"]
    owner = _model_at(cls, loc[:-1]) if loc else cls
    field = owner.model_fields.get(str(loc[-1])) if owner and loc else None
    describe = _MESSAGES.get(error["type"], _fallback)
    inner = str(error.get("ctx", {}).get("inner", ""))
    return Problem(dotted(loc) + inner, describe(_Spot(error, owner, field, _model_at(cls, loc))))


class _Spot(NamedTuple):
    """Where an error stands: the model that holds the key, the key's field, the model expected at the place itself."""

    error: ErrorDetails
    owner: type[BaseModel] | None
    field: FieldInfo | None
    target: type[BaseModel] | None

    @property
    def shown(self) -> str:
        return _shown(self.error["input"])


def _fallback(spot: _Spot) -> str:
    message = spot.error["msg"]
    if spot.error["type"] in ("value_error", "assertion_error", "says_it_all"):
        return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"{_lower_first(message)}, got {spot.shown}"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _model_at(annotation: Any, loc: Sequence[str | int]) -> type[BaseModel] | None:
    """The model that stands at ``loc`` below ``annotation``."""
    for part in loc:
        annotation = _strip(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields.get(str(part))
            if field is None:
                return None
            annotation = field.annotation
        elif isinstance(part, int) and get_args(annotation):
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]
        else:
            return None
    annotation = _strip(annotation)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _strip(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return _strip(rest[0]) if len(rest) == 1 else annotation
    return annotation


def _shown(value: Any) -> str:
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (str, "text "),
        (bool, ""),
        ((int, float), "number "),
        (list, "list "),
        (dict, "object "),
    ]
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    if len(text) > 60:
        text = f"{text[:57]}..."
    if value is None:
        return "null"
    return next((word for kind, word in kinds if isinstance(value, kind)), "") + text


def _unknown_key(spot: _Spot) -> str:
    key = str(spot.error["loc"][-1])
    owner = spot.owner
    if owner is None:
        return "unknown key"
    refused: Mapping[str, str] = getattr(owner, "refused_keys", {})
    if key in refused:
        return refused[key]
    aliases: Mapping[str, str] = getattr(owner, "other_names", {})
    allowed = [info.alias or name for name, info in owner.model_fields.items()]
    near = aliases.get(key) or did_you_mean(key, allowed)
    hint = f'; did you mean "{near}"?' if near else ""
    free = "; free-form values belong in metadata" if "metadata" in allowed and not near else ""
    return f"unknown key{hint}{free} (allowed: {', '.join(allowed)})"


def _wrong_object(spot: _Spot) -> str:
    fields = list(spot.target.model_fields.items()) if spot.target else []
    needed = [name for name, info in fields if info.is_required()]
    wanted = f"an object with {' and '.join(needed)}" if needed else "an object"
    if spot.target and not spot.error["loc"]:
        wanted = f"one JSON object with keys such as {', '.join(name for name, _ in fields if name != 'schema_')}"
    return f"must be {wanted}, got {spot.shown}"


def _must_be(wanted: str) -> Callable[[_Spot], str]:
    return lambda spot: f"must be {wanted}, got {spot.shown}"


def _out_of_bounds(spot: _Spot) -> str:
    bounds = {
        name: getattr(item, name)
        for item in (spot.field.metadata if spot.field else [])
        for name in ("ge", "gt", "le", "lt")
        if getattr(item, name, None) is not None
    }
    if {"ge", "le"} <= bounds.keys():
        wanted = f"between {bounds['ge']} and {bounds['le']}"
    elif {"gt", "le"} <= bounds.keys():
        wanted = f"above {bounds['gt']} and at most {bounds['le']}"
    else:
        wanted = spot.error["msg"].removeprefix("Input should be ")
    return f"must be {wanted}, got {spot.shown}"


def _closed_choice(spot: _Spot) -> str:
    wanted = str(spot.error.get("ctx", {}).get("expected", ""))
    near = did_you_mean(str(spot.error["input"]), re.findall(r"'([^']*)'", wanted))
    hint = f"; did you mean '{near}'?" if near else ""
    return f"must be {wanted}, got {spot.shown}{hint}"


_MESSAGES: dict[str, Callable[[_Spot], str]] = {
    "extra_forbidden": _unknown_key,
    "missing": lambda _spot: "required key is missing",
    "model_type": _wrong_object,
    "model_attributes_type": _wrong_object,
    "dict_type": _wrong_object,
    "list_type": _must_be("a list"),
    "string_type": _must_be("text"),
    "string_too_short": _must_be("text that is not empty"),
    "too_short": _must_be("a list that is not empty"),
    "bool_type": _must_be("true or false"),
    "bool_parsing": _must_be("true or false"),
    "int_type": _must_be("a whole number"),
    "int_from_float": _must_be("a whole number"),
    "int_parsing": _must_be("a whole number"),
    "float_type": _must_be("a number"),
    "float_parsing": _must_be("a number"),
    "finite_number": _must_be("a finite number"),
    "greater_than": _out_of_bounds,
    "greater_than_equal": _out_of_bounds,
    "less_than": _out_of_bounds,
    "less_than_equal": _out_of_bounds,
    "enum": _closed_choice,
    "literal_error": _closed_choice,
}


# Writing


def model_text(model: BaseModel, *, exclude_unset: bool = True) -> str:
    """The model as stable JSON text: 2 spaces, real UTF-8, one newline at the end.

    With ``exclude_unset`` what nobody wrote is left out: generated ids and untouched defaults.
    """
    if exclude_unset:
        _mark_changed(model)
    return _dumped(model, indent=2, exclude_unset=exclude_unset) + "\n"


def model_line(model: BaseModel) -> str:
    """The whole model as JSON text on one line."""
    return _dumped(model, indent=None, exclude_unset=False)


def digest(model: BaseModel) -> str:
    """SHA-256 of what the model says, the first 16 hex digits; generated ids and untouched defaults do not count."""
    text = _dumped(model, indent=None, exclude_unset=True)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _dumped(model: BaseModel, indent: int | None, exclude_unset: bool) -> str:
    try:
        return model.model_dump_json(indent=indent, exclude_unset=exclude_unset)
    except (PydanticSerializationError, UnicodeEncodeError):
        # Only text that UTF-8 cannot hold, or a value that JSON cannot, brings us here.
        value = model.model_dump(exclude_unset=exclude_unset)
        return json.dumps(_mended(value), indent=indent, ensure_ascii=False, default=_enum_or_text)


def _mark_changed(model: BaseModel) -> None:
    """Counts containers that were filled in place, without an assignment, as set."""
    values, given = model.__dict__, model.__pydantic_fields_set__
    containers, with_models = _containers(type(model))
    for name in containers:
        if values[name] and name not in given:
            given.add(name)
    for name in with_models:
        value = values[name]
        if value is None:
            continue
        models = value if type(value) is list else (value,)
        changed = False
        for item in models:
            if isinstance(item, BaseModel):
                _mark_changed(item)
                changed = changed or bool(item.__pydantic_fields_set__)
        if changed:
            given.add(name)


@functools.cache
def _containers(cls: type[BaseModel]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields whose default is an empty container, and those that hold models."""
    defaults = {name: info.get_default(call_default_factory=True) for name, info in cls.model_fields.items()}
    empty = tuple(name for name, default in defaults.items() if default in ([], {}))
    with_models = tuple(name for name in defaults if _model_at(cls, (name,)) or _model_at(cls, (name, 0)))
    return empty, with_models


def _enum_or_text(value: Any) -> Any:
    return value.value if hasattr(value, "value") else printable(str(value))


def write_text(path: Path | str, text: str) -> Path:
    """Writes a file whole or not at all, through a temporary file beside it; makes missing folders.

    A file that is there keeps its permissions, and a symbolic link stays one.

    Raises:
        ReportError: The file cannot be written; nothing of it is left behind.
    """
    try:
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n", errors="backslashreplace") as stream:
                stream.write(text)
            os.chmod(temporary, _permissions(target))
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as exc:
        raise ReportError(f"{path}: cannot be written: {exception_text(exc)}") from exc
    return Path(path)


def _permissions(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
