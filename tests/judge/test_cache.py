"""Verdicts on disk."""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval.errors import JudgeError
from agentflow_eval.judge import (
    Answer,
    JudgeCache,
    JudgeReply,
    JudgeRequest,
    Judges,
    NotEnoughVerdictsError,
    Question,
    render,
)
from agentflow_eval.result import TokenUsage

SCHEMA = {"type": "object", "example": {"score": 0.5}}
VALUES = {"question": "q", "answer": "a", "expected": "e", "scale": "0-1", "instructions": ""}


class Counting:
    """A judge that counts, and says the sample's number."""

    def __init__(self, *replies: str) -> None:
        self.asked = 0
        self.replies = list(replies)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.asked += 1
        text = self.replies.pop(0) if self.replies else f'{{"score": 0.{request.sample + 1}}}'
        return JudgeReply(text, TokenUsage(input_tokens=1))


def question(samples: int = 1, model: str = "m", **values: Any) -> Question:
    """A question with a newly rendered prompt."""
    prompt = render("llm_judge", {**VALUES, **values}, SCHEMA)
    return Question(prompt, model, samples)


def run(path: Path, judge: Any, asked: Question, **options: Any) -> tuple[Answer, Judges]:
    """One run with the cache at ``path``."""
    judges = Judges(lambda model: judge, open_cache=lambda: JudgeCache(path), **options)

    async def main() -> Answer:
        try:
            return await judges.answer(asked)
        finally:
            await judges.close()

    return asyncio.run(main()), judges


def test_reuse(tmp_path: Path) -> None:
    """A second run asks nobody, gives the same, and says how many verdicts it reused."""
    judge = Counting()
    first, before = run(tmp_path / "sub" / "c.db", judge, question(3))
    second, after = run(tmp_path / "sub" / "c.db", judge, question(3))
    assert judge.asked == 3
    assert second.scores == first.scores
    assert [sample.reused for sample in second.samples] == [True] * 3
    assert [sample.token_usage.total_tokens for sample in second.samples] == [0] * 3
    assert (before.use.calls, before.use.reused, before.use.verdicts) == (3, 0, 3)
    assert (after.use.calls, after.use.reused, after.use.verdicts) == (0, 3, 3)


def test_key_parts(tmp_path: Path) -> None:
    """Model, prompt, parameters and schema decide; more samples reuse those that are there."""
    path, judge = tmp_path / "c.db", Counting()
    run(path, judge, question())
    expected = 1
    for asked, parameters in [
        (question(model="n"), {}),
        (question(answer="b"), {}),
        (question(instructions="be strict"), {}),
        (question(), {"temperature": 0.5}),
        (question(2), {}),
    ]:
        _, judges = run(path, judge, asked, parameters=parameters)
        expected += 1
        assert judge.asked == expected
        assert judges.use.reused == (1 if asked.samples == 2 else 0)
    other = dataclasses.replace(question().prompt, schema={**SCHEMA, "title": "x"})
    run(path, judge, dataclasses.replace(question(), prompt=other))
    assert judge.asked == expected + 1


def test_token_is_no_part_of_the_key() -> None:
    """Two renderings of a prompt differ in their token and are the same question."""
    one, other = question().prompt, question().prompt
    assert one.text != other.text
    assert one.canonical == other.canonical


def test_errors_are_not_stored(tmp_path: Path) -> None:
    """Only verdicts are stored: after a failure the judge is asked again, after a repair it is not."""
    path, judge = tmp_path / "c.db", Counting("no", "no again")
    with pytest.raises(NotEnoughVerdictsError):
        run(path, judge, question())
    judge = Counting("no", '{"score": 0.3}')
    assert run(path, judge, question())[0].score == 0.3
    assert run(path, judge, question())[0].score == 0.3
    assert judge.asked == 2


def test_low_scores_are_stored(tmp_path: Path) -> None:
    """A failing verdict is a verdict."""
    judge = Counting('{"score": 0}')
    for _ in range(2):
        assert run(tmp_path / "c.db", judge, question())[0].score == 0
    assert judge.asked == 1


def test_replay_only(tmp_path: Path) -> None:
    """Without a stored verdict replay_only is an error, and asks nobody."""
    path, judge = tmp_path / "c.db", Counting()
    with pytest.raises(NotEnoughVerdictsError, match="not in the cache, and replay_only asks no judge"):
        run(path, judge, question(), replay_only=True)
    assert judge.asked == 0
    run(path, judge, question())
    assert run(path, judge, question(), replay_only=True)[1].use.reused == 1


def test_unusable_entry(tmp_path: Path) -> None:
    """A stored reply that is no verdict is asked for again and replaced; in a replay it is an error."""
    path, judge = tmp_path / "c.db", Counting()
    run(path, judge, question())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE replies SET reply = 'broken'")
    connection.close()
    with pytest.raises(NotEnoughVerdictsError, match="the cached reply is unusable: there is no JSON object"):
        run(path, judge, question(), replay_only=True)
    for _ in range(2):
        assert run(path, judge, question())[0].score == 0.1
    assert judge.asked == 2


def corrupt(path: Path) -> None:
    """Not a database."""
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)


def foreign(path: Path) -> None:
    """A database of somebody else."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE replies (a INTEGER)")
    connection.close()


@pytest.mark.parametrize("make", [corrupt, foreign, Path.mkdir, lambda path: path.write_text("hello")])
def test_file_that_is_no_cache(make: Any, tmp_path: Path) -> None:
    """A file that is no cache is a clean error that names it; the judge is not asked."""
    path, judge = tmp_path / "c.db", Counting()
    make(path)
    with pytest.raises(NotEnoughVerdictsError) as caught:
        run(path, judge, question())
    assert f"judge_cache {str(path)!r} cannot be used" in str(caught.value)
    assert judge.asked == 0


def test_damage_while_open(tmp_path: Path) -> None:
    """A table that goes away under a run is a clean error; a verdict that cannot be stored is still one."""
    path = tmp_path / "c.db"
    cache = JudgeCache(path)
    other = sqlite3.connect(path)
    other.execute("DROP TABLE replies")
    other.close()
    with pytest.raises(JudgeError, match="no such table"):
        cache.get("k")
    cache.close()
    with pytest.raises(JudgeError, match="is closed"):
        cache.get("k")


class Full(JudgeCache):
    """A cache on a full disk."""

    def put(self, key: str, reply: str, replace: bool = False) -> None:
        raise JudgeError("judge_cache: disk full")


def test_full_disk(tmp_path: Path) -> None:
    """A verdict that was paid for counts although it could not be stored; a warning says so."""
    judges = Judges(lambda model: Counting(), open_cache=lambda: Full(tmp_path / "c.db"))

    async def main() -> Answer:
        try:
            return await judges.answer(question())
        finally:
            await judges.close()

    with pytest.warns(RuntimeWarning, match="disk full"):
        assert asyncio.run(main()).score == 0.1


def write(path: Path, name: str, count: int, kill_at: int = -1) -> None:
    """Writes entries, each in its own open file; dies at one of them."""
    for number in range(count):
        cache = JudgeCache(path)
        if number == kill_at:
            cache.put(f"{name}{number}", "last")
            os._exit(9)
        cache.put(f"{name}{number}", name)
        cache.put(f"shared{number}", name)
        cache.close()


def test_writers_at_once(tmp_path: Path) -> None:
    """Processes that open and write at the same time lose nothing; the first value stays."""
    path = tmp_path / "c.db"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(path, name, 60)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    cache = JudgeCache(path)
    assert [cache.get(f"{name}{number}") for name in "abc" for number in range(60)] == ["a"] * 60 + ["b"] * 60 + [
        "c"
    ] * 60
    assert {cache.get(f"shared{number}") for number in range(60)} <= {"a", "b", "c"}
    cache.close()


def test_killed_writer(tmp_path: Path) -> None:
    """What a killed process had stored is there, and the file can be used."""
    path = tmp_path / "c.db"
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(path, "a", 9, 5))
    writer.start()
    writer.join()
    assert writer.exitcode == 9
    cache = JudgeCache(path)
    assert [cache.get(f"a{number}") for number in range(7)] == ["a"] * 5 + ["last", None]
    cache.put("b", "b")
    assert cache.get("b") == "b"
    cache.close()


def test_odd_text(tmp_path: Path) -> None:
    """Keys and replies may hold any text."""
    cache = JudgeCache(tmp_path / "c.db")
    key = cache.key("m\ud800", "p\ud800", {"x": {1: object}}, 0)
    cache.put(key, "\ud800 ü")
    assert cache.get(key) == "\\ud800 ü"
    cache.put(key, "second")
    assert cache.get(key) == "\\ud800 ü"
    cache.put(key, "third", replace=True)
    assert cache.get(key) == "third"
    cache.close()
