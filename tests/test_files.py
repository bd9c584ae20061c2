"""Reading and writing files."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentflow_eval import (
    EvalConfig,
    EvalReport,
    EvalSet,
    LoadError,
    LoadWarning,
    MatchType,
    MissingFileError,
    ReportError,
)
from agentflow_eval._files import (
    dotted,
    explain,
    model_line,
    model_text,
    printable,
    read_model,
    read_text,
    safe_name,
    write_text,
)
from agentflow_eval.errors import Problem

Load = Callable[[str | bytes], EvalSet]

TURN = {"user_content": {"role": "user", "content": "Where is my parcel?"}}


def case(**more: Any) -> dict[str, Any]:
    """A case of one turn."""
    return {"eval_id": "parcel", "conversation": [TURN], **more}


def set_text(**more: Any) -> str:
    """An eval set with one case, as JSON text."""
    return json.dumps({"eval_set_id": "shop", "eval_cases": [case(**more)]}, ensure_ascii=False)


def turn_text(**more: Any) -> str:
    """An eval set with one turn, as JSON text."""
    return set_text(conversation=[TURN | more])


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads an eval set from what a file holds."""

    def from_content(content: str | bytes) -> EvalSet:
        path = tmp_path / "shop.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return EvalSet.from_file(path)

    return from_content


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("\ufeff" + set_text(), id="byte order mark"),
        pytest.param(set_text().replace(",", ",\r\n"), id="windows line ends"),
        pytest.param(" \n\t" + set_text() + "\n\n", id="white space around"),
        pytest.param('{"$schema": "https://example.org/s.json", ' + set_text()[1:], id="schema address"),
        pytest.param(set_text(eval_id="../../etc/cron"), id="id that looks like a path"),
        pytest.param(set_text(eval_id='x\n\t"<&>: 🦉'), id="id with anything in it"),
        pytest.param(set_text(metadata={"$any": 1, "free": {"deep": [None]}}), id="free metadata"),
        pytest.param(turn_text(expected_tool_trajectory=None), id="null expectation"),
    ],
)
def test_loads(load: Load, content: str) -> None:
    """What an editor on any system writes is read."""
    assert len(load(content)) == 1


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param(b"", ["is empty", "one JSON object"], id="empty"),
        pytest.param(b" \r\n\t", ["is empty"], id="white space only"),
        pytest.param(b"\xef\xbb\xbf", ["is empty"], id="byte order mark only"),
        pytest.param(b'{"name": "caf\xe9"}', ["not UTF-8", "0xe9", "line 1"], id="latin-1"),
        pytest.param(b'{\n"name":\n"caf\xe9"}', ["not UTF-8", "line 3"], id="latin-1 further down"),
        pytest.param('{"name": "x"}'.encode("utf-16"), ["not UTF-8", "save the file as UTF-8"], id="utf-16"),
        pytest.param('{"name": "x"}'.encode("utf-16-le"), ["not valid JSON"], id="utf-16 without mark"),
        pytest.param('{"name": "s",\n}', ["line ", "column ", "trailing comma"], id="comma before }"),
        pytest.param('{"eval_cases": [1, ]}', ["line 1 column ", "trailing comma"], id="comma before ]"),
        pytest.param('{\n// note\n"name": "s"}', ["line 2 column 1", "no comments", "description"], id="// comment"),
        pytest.param('{"name": "s" /* note */}', ["no comments"], id="block comment"),
        pytest.param('# note\n{"name": "s"}', ["line 1 column 1", "no comments"], id="# comment"),
        pytest.param("{'name': 's'}", ["double quotes"], id="single quotes around a key"),
        pytest.param("{\"name\": 's'}", ["double quotes"], id="single quotes around a value"),
        pytest.param('{"name": "s"}\n{"name": "t"}', ["line 2", "one JSON object", "JSONL"], id="JSONL"),
        pytest.param('{"name": "s" "description": ""}', ["line 1 column 14", "','"], id="comma missing"),
        pytest.param('{"name": "s"', ["line 1 column 13"], id="cut off"),
        pytest.param('{"name": None}', ["not valid JSON"], id="Python null"),
        pytest.param('{"name": "a\nb"}', ["line 1 column ", "control character"], id="line end inside text"),
        pytest.param('{"metadata": {"n": 1' + "0" * 5000 + "}}", ["4300 digits", "as text"], id="huge number"),
        pytest.param('{"metadata": ' + '{"a":' * 300 + "1" + "}" * 301, ["nested too deeply"], id="nested"),
        pytest.param('{"metadata": ' + '{"a":' * 9000 + "1" + "}" * 9001, ["nested too deeply"], id="nested very"),
        pytest.param("[" * 90_000, ["nested too deeply"], id="lists without end"),
        pytest.param("[]", ["one JSON object", "eval_cases", "got list []"], id="list"),
        pytest.param('"shop"', ["one JSON object", 'got text "shop"'], id="text"),
        pytest.param("null", ["one JSON object", "got null"], id="null"),
        pytest.param('{"name": "a", "name": "b"}', ["name: duplicate key"], id="duplicate key"),
    ],
)
def test_unreadable(load: Load, tmp_path: Path, content: str | bytes, parts: list[str]) -> None:
    """A file that is no JSON object says what is wrong, where, and what would be right."""
    with pytest.raises(LoadError) as caught:
        load(content)
    assert [part for part in [str(tmp_path / "shop.json"), *parts] if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ('{"evalSetId": "s", "evalCases": []}', ['evalCases: unknown key; did you mean "eval_cases"', "eval_set_id"]),
        (set_text(priority="high"), ["eval_cases[0].priority: unknown key; free-form values belong in metadata"]),
        (
            turn_text(expected_final_reponse=None),
            ["eval_cases[0].conversation[0].expected_final_reponse", 'did you mean "expected_final_response"'],
        ),
        (
            turn_text(expected_tool_trajectory=["track"]),
            ['expected_tool_trajectory[0]: must be an object with name, got text "track"'],
        ),
        (
            turn_text(expected_tool_trajectory=[{"name": "t", "args": ["a"]}]),
            ['expected_tool_trajectory[0].args: must be an object, got list ["a"]'],
        ),
        (turn_text(expected_tool_trajectory=[{"name": ""}]), ["[0].name: must be text that is not empty"]),
        (turn_text(expected_node_order="A"), ['expected_node_order: must be a list, got text "A"']),
        (turn_text(expected_keywords=["a", " "]), ["expected_keywords[1]: is empty"]),
        (set_text(tags=None), ["eval_cases[0].tags: must be a list, got null"]),
        (set_text(tags=[1]), ["eval_cases[0].tags[0]: must be text, got number 1"]),
        (set_text(conversation=[]), ["eval_cases[0].conversation: must have at least one turn"]),
        (set_text(timeout=0), ["eval_cases[0].timeout: must be greater than 0, got number 0"]),
        (set_text(timeout="5"), ['eval_cases[0].timeout: must be a number, got text "5"']),
        (set_text(trials=1.5), ["eval_cases[0].trials: must be a whole number, got number 1.5"]),
        (
            set_text(on_turn_error="stopp"),
            ["eval_cases[0].on_turn_error: must be 'stop' or 'continue'", "did you mean"],
        ),
        (set_text(criteria={"trajectry": {}}), ["eval_cases[0].criteria.trajectry", 'did you mean "trajectory"']),
        (
            set_text(conversation=[{"user_content": {"role": "user", "content": 7}}]),
            ["must be text or a list of content"],
        ),
    ],
)
def test_wrong_value(load: Load, content: str, parts: list[str]) -> None:
    """A value that does not fit is named with its place and what would fit."""
    with pytest.raises(LoadError) as caught:
        load(content)
    assert [part for part in parts if part not in str(caught.value)] == []
    assert len(caught.value.problems) == content.count("eval_set_id") or "evalSetId" in content


def test_all_problems_at_once(load: Load) -> None:
    """Everything that is wrong is told in one go, in file order, duplicate keys included."""
    content = (
        '{"eval_set_id": 7, "name": "a", "name": "b", "eval_cases": ['
        '{"eval_id": null, "conversation": "hi"}, {"conversation": [{}]}]}'
    )
    with pytest.raises(LoadError) as caught:
        load(content)
    assert [problem.place for problem in caught.value.problems] == [
        "name",
        "eval_set_id",
        "eval_cases[0].eval_id",
        "eval_cases[0].conversation",
        "eval_cases[1].conversation[0].user_content",
    ]


def test_duplicate_keys_at_depth(load: Load) -> None:
    """Keys given twice are found wherever they stand, in file order, spelled with escapes or not."""
    content = (
        '{"eval_cases": [{"eval_id": "a", "conversation": [{"user_content": {"role": "user", "role": "user", '
        '"content": "q"}}]}, {"eval_id": "b", "metadata": {"k": [{"x": 1, "\\u0078": 2}]}, "conversation": []}]}'
    )
    with pytest.raises(LoadError) as caught:
        load(content)
    assert [problem.place for problem in caught.value.problems] == [
        "eval_cases[0].conversation[0].user_content.role",
        "eval_cases[1].metadata.k[0].x",
    ]


def test_duplicate_keys_beside_mended_text(load: Load) -> None:
    """Text that had to be mended hides no other problem."""
    with pytest.raises(LoadError) as caught:
        load('{"name": "\\ud800", "name": "b", "description": 5}')
    assert [problem.place for problem in caught.value.problems] == ["name", "description"]
    with pytest.raises(LoadError, match="duplicate key"):
        load('{"name": "\\ud800", "name": "b"}')


def test_lone_surrogate(load: Load, tmp_path: Path) -> None:
    """Text that UTF-8 cannot hold is made visible and can be saved."""
    eval_set = load('{"name": "half \\ud83d pair", "metadata": {"\\udc00": ["\\ud800"], "n": null}}')
    assert eval_set.name == r"half \ud83d pair"
    assert eval_set.metadata == {r"\udc00": [r"\ud800"], "n": None}
    eval_set.to_file(tmp_path / "again.json")
    assert eval_set.name == EvalSet.from_file(tmp_path / "again.json").name


def test_deepest_nesting_that_loads(load: Load) -> None:
    """Nesting that no person writes is refused, what programs write is read."""
    assert load('{"metadata": ' + '{"a":' * 150 + "1" + "}" * 151).metadata


def test_ids_that_differ_in_case(load: Load) -> None:
    """Ids that some file systems take for the same give a warning that names both."""
    content = json.dumps({"eval_cases": [case(eval_id="Parcel"), case(eval_id="parcel")]})
    with pytest.warns(LoadWarning, match="'Parcel' and 'parcel' differ only in case"):
        load(content)


def test_large_file(load: Load) -> None:
    """Ten thousand cases load in a moment."""
    content = json.dumps({"eval_cases": [case(eval_id=f"c{number}") for number in range(10_000)]})
    assert len(load(content)) == 10_000


def test_loading_leaves_the_collector_of_garbage_alone(load: Load) -> None:
    """Whether garbage is collected after loading is as it was before."""
    for switch, expected in ((gc.disable, False), (gc.enable, True)):
        switch()
        load(set_text())
        assert expected == gc.isenabled()


def test_a_lower_limit_for_numbers(load: Load) -> None:
    """A program that lets Python read fewer digits still reads its files."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert load(set_text()[:-1] + ', "metadata": {"n": 1' + "0" * 1000 + "}}").metadata["n"] == 10**1000
    finally:
        sys.set_int_max_str_digits(limit)


def test_unknown_key_in_a_step(tmp_path: Path) -> None:
    """Steps of a report are closed too."""
    step = {"step_type": "node", "name": "A", "colour": "red"}
    values = {"eval_set_id": "s", "results": [{"eval_id": "c", "actual_trajectory": [step]}]}
    (tmp_path / "r.json").write_text(json.dumps(values))
    with pytest.raises(LoadError, match=r"results\[0\].actual_trajectory\[0\].colour: "):
        EvalReport.from_file(tmp_path / "r.json")


@pytest.mark.parametrize("cls", [EvalSet, EvalConfig])
def test_missing_file(tmp_path: Path, cls: type[EvalSet | EvalConfig]) -> None:
    """A missing file is both kinds of error that people catch, and the working directory is told."""
    with pytest.raises(MissingFileError, match="not found") as caught:
        cls.from_file(tmp_path / "none.json")
    assert isinstance(caught.value, FileNotFoundError)
    assert str(Path.cwd()) in str(caught.value)


def test_directory(tmp_path: Path) -> None:
    """A folder in place of a file is named as such."""
    with pytest.raises(LoadError, match=r"this is a directory; name the eval set file in it"):
        EvalSet.from_file(str(tmp_path))


def test_unreadable_file(tmp_path: Path) -> None:
    """Whatever the system says about a path ends in one clean error."""
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    for path in (loop, tmp_path / "shop.json\0", tmp_path / ("x" * 300)):
        with pytest.raises(LoadError, match="eval set file cannot be read"):
            EvalSet.from_file(path)


def test_read_text(tmp_path: Path) -> None:
    """Plain text has its own words for what is wrong."""
    path = tmp_path / "prompt.j2"
    path.write_bytes(b"\xef\xbb\xbfIs it good?")
    assert read_text(path, "prompt") == "Is it good?"
    path.write_bytes(b"\n")
    with pytest.raises(LoadError, match=r"the prompt file is empty$"):
        read_text(path, "prompt")


# Explaining


class Size(BaseModel):
    """A value with bounds of every kind."""

    model_config = ConfigDict(extra="forbid")

    share: float = Field(0.5, gt=0, le=1)
    count: int = Field(1, ge=0)
    code: str = Field("a", pattern="^[a-z]$")
    by_name: dict[str, Shelf] = {}


class Shelf(BaseModel):
    """What stands in a mapping."""

    model_config = ConfigDict(extra="forbid")

    width: int = 1


Size.model_rebuild()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"share": 0}', "share: must be above 0 and at most 1, got number 0"),
        ('{"share": "all"}', 'share: must be a number, got text "all"'),
        ('{"share": true}', None),
        ('{"code": "AB"}', "code: string should match pattern '^[a-z]$', got text \"AB\""),
        ('{"count": -1}', "count: must be greater than or equal to 0, got number -1"),
        (
            '{"by_name": {"top": {"widht": 1}}}',
            'by_name.top.widht: unknown key; did you mean "width"? (allowed: width)',
        ),
        ('{"by_name": {"top": {"width": null}}}', "by_name.top.width: must be a whole number, got null"),
        ('{"by_name": {"top": [' + "1," * 40 + "1]}}", "..."),
    ],
)
def test_bounds(tmp_path: Path, content: str, message: str | None) -> None:
    """Bounds are told as people say them, and long values are cut."""
    path = tmp_path / "size.json"
    path.write_text(content)
    if message is None:
        assert read_model(path, Size, "size").share == 1.0
        return
    with pytest.raises(LoadError) as caught:
        read_model(path, Size, "size")
    assert message in str(caught.value)


def test_explaining_values_of_code() -> None:
    """What code got wrong is explained like what a file got wrong."""
    with pytest.raises(ValidationError) as caught:
        Size.model_validate({"share": {1, 2}, "by_name": {"top": {"width": []}}})
    assert explain(caught.value, Size) == [
        Problem("share", "must be a number, got {1, 2}"),
        Problem("by_name.top.width", "must be a whole number, got list []"),
    ]


@pytest.mark.parametrize(
    ("loc", "text"), [((), ""), (("a",), "a"), (("a", 0, "b"), "a[0].b"), ((0, 1), "[0][1]"), (("a", "b.c"), "a.b.c")]
)
def test_dotted(loc: tuple[str | int, ...], text: str) -> None:
    """Places are written as people write them."""
    assert text == dotted(loc)


# Writing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 🦉\n\t", "plain é 🦉\n\t"),
        ("\x00\x1b[31m", r"\x00\x1b[31m"),
        ("\ud83d", r"\ud83d"),
        ("\uffff\x7f", r"\uffff\x7f"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    """What UTF-8 or XML cannot hold is made visible, everything else stays."""
    assert expected == printable(text)


@given(st.text(st.characters()))
def test_printable_is_idempotent(text: str) -> None:
    """Made visible once is made visible for good."""
    once = printable(text)
    assert once == printable(once)
    once.encode()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("shop", "shop"),
        ("shop set/2.json", "shop_set_2_json"),
        ("../../etc", "______etc"),
        ("", "eval"),
        ("a\nb\tc:/d", "a_b_c__d"),
        ("con", "con_"),
        ("NUL", "NUL_"),
        ("com7", "com7_"),
        ("console", "console"),
    ],
)
def test_safe_name(text: str, name: str) -> None:
    """A name that every file system takes."""
    assert name == safe_name(text)


@given(st.text())
def test_safe_name_is_safe(text: str) -> None:
    """Any text gives a short name of safe characters."""
    name = safe_name(text)
    assert 0 < len(name) <= 101
    assert set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_long_names_stay_apart() -> None:
    """Long texts that begin alike give different names of at most 100 characters."""
    first, second = safe_name("a" * 200), safe_name("a" * 201)
    assert first != second
    assert len(first) == len(second) == 100


def test_write_text(tmp_path: Path) -> None:
    """Folders are made, line ends are kept, and nothing else is left in the folder."""
    path = tmp_path / "new" / "deep" / "a.txt"
    assert path == write_text(path, "héllo\n\ud800")
    assert path.read_bytes() == "héllo\n\\ud800".encode()
    assert os.listdir(path.parent) == ["a.txt"]


def test_write_keeps_permissions(tmp_path: Path) -> None:
    """A new file gets the usual permissions, one that is there keeps its own."""
    path = write_text(tmp_path / "a.txt", "one")
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o600)
    write_text(path, "two")
    assert path.stat().st_mode & 0o777 == 0o600


def test_write_through_a_link(tmp_path: Path) -> None:
    """A symbolic link stays one; the file that it names is written."""
    link, target = tmp_path / "link.txt", tmp_path / "target.txt"
    link.symlink_to(target)
    assert link == write_text(link, "text")
    assert link.is_symlink()
    assert target.read_text() == "text"


def test_failing_write(tmp_path: Path) -> None:
    """A write that fails leaves the old file as it was and no temporary file."""
    folder = tmp_path / "taken"
    folder.mkdir()
    (folder / "inside").touch()
    path = tmp_path / "a.txt"
    path.write_text("old")
    for impossible in (folder, path / "below", tmp_path / "x\0y", tmp_path / ("x" * 300)):
        with pytest.raises(ReportError, match="cannot be written"):
            write_text(impossible, "new")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "taken"]
    assert path.read_text() == "old"


def test_interrupted_write(tmp_path: Path) -> None:
    """Text that breaks while it is written leaves the old file and no temporary file."""

    path = write_text(tmp_path / "a.txt", "old")
    with pytest.raises(TypeError):
        write_text(path, b"bytes")  # type: ignore[arg-type]  # anything that breaks halfway
    assert os.listdir(tmp_path) == ["a.txt"]
    assert path.read_text() == "old"


def test_model_text_is_stable() -> None:
    """Two spaces, real UTF-8, one newline at the end, the same bytes each time."""
    eval_set = EvalSet(eval_set_id="s", name="Käse 你好")
    assert model_text(eval_set) == '{\n  "eval_set_id": "s",\n  "name": "Käse 你好"\n}\n'
    assert model_text(eval_set) == model_text(eval_set)
    assert "\n" not in model_line(eval_set)


def test_model_text_of_values_that_json_lacks() -> None:
    """Surrogates and objects become text instead of an exception."""
    eval_set = EvalSet(metadata={"half": "\ud800", "where": Path("/srv"), "odd": object, "kind": MatchType.EXACT})
    metadata = json.loads(model_text(eval_set))["metadata"]
    assert metadata == {"half": r"\ud800", "where": "/srv", "odd": "<class 'object'>", "kind": "EXACT"}
