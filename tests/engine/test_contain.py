"""Exits and prints of strangers stay inside their case."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from agentflow_eval.engine._contain import contained
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import EvalReport
from tests.engine.runs import Waiting, case, config, eval_set, numbered, ok, outcomes, run, run_one


def exits(code: Any) -> Any:
    """A coroutine that ends the process."""

    async def leave() -> None:
        sys.exit(code)

    return leave()


async def prints(text: str) -> str:
    """Prints in every way there is."""
    print("one")
    sys.stdout.write("two\n")
    sys.stdout.writelines(["three\n", "four\n"])
    sys.stdout.buffer.write("fünf\n".encode())
    sys.stdout.flush()
    return "ok"


def test_prints_go_to_the_case(capfd: pytest.CaptureFixture[str]) -> None:
    """What an agent prints is in its result and not on the terminal."""
    assert run_one(prints).stdout == "one\ntwo\nthree\nfour\nfünf\n"
    assert capfd.readouterr() == ("", "")


def test_prints_of_a_thread(capfd: pytest.CaptureFixture[str]) -> None:
    """A sync agent's prints are its own too."""

    def agent(text: str) -> str:
        print(f"I am {text}")
        return "ok"

    report = run(agent, *numbered(3), parallel=True)
    assert [result.stdout for result in report.results] == ["I am c1\n", "I am c2\n", "I am c3\n"]
    assert capfd.readouterr().out == ""


def test_endless_prints() -> None:
    """Only the first 100,000 characters are kept."""

    async def agent(text: str) -> str:
        for _ in range(3):
            print("x" * 60_000)
        return "ok"

    assert run_one(agent).stdout == "x" * 60_000 + "\n" + "x" * 39_999


def test_prints_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no agent's is printed as ever, and the stream has its other attributes."""

    async def main() -> None:
        with contained(asyncio.get_running_loop()):
            print("mine", file=sys.stdout)
            assert not sys.stdout.isatty()

    before = sys.stdout
    asyncio.run(main())
    assert capsys.readouterr().out == "mine\n"
    assert before is sys.stdout


@pytest.mark.parametrize("code", [0, 3, "bye", None])
def test_exit_of_an_agent(code: Any) -> None:
    """An agent's sys.exit is its error and the run goes on."""

    async def agent(text: str) -> str:
        if text == "c1":
            sys.exit(code)
        return "ok"

    report = run(agent, *numbered(2))
    assert outcomes(report) == ["error", "passed"]
    assert str(report.results[0].error).startswith("SystemExit")


def test_exit_in_a_thread() -> None:
    """So is that of a sync agent."""

    def agent(text: str) -> str:
        if text == "c1":
            sys.exit("enough")
        return "ok"

    report = run(agent, *numbered(2))
    assert outcomes(report) == ["error", "passed"]
    assert report.results[0].error == "SystemExit: enough"


def test_exit_in_an_inner_task() -> None:
    """A task that an agent makes cannot end the event loop."""

    async def agent(text: str) -> str:
        if text == "c1":
            await asyncio.create_task(exits(3))
        return "ok"

    report = run(agent, *numbered(2), parallel=True)
    assert outcomes(report) == ["error", "passed"]
    assert report.results[0].error == "AgentError: SystemExit(3): a task tried to end the process"


def test_exit_that_the_agent_catches() -> None:
    """An agent that takes what its task raised for an ordinary error would have ended the process all the same."""

    async def agent(text: str) -> str:
        if text == "c1":
            await asyncio.gather(exits(0), return_exceptions=True)
        return "ok"

    report = run(agent, *numbered(2))
    assert outcomes(report) == ["error", "passed"]
    assert report.results[0].error == "AgentError: SystemExit(0): a task tried to end the process"


def test_exit_in_a_task_of_a_criterion() -> None:
    """Nor can a task that a criterion makes."""
    result = run_one(ok, own=[Waiting(lambda: asyncio.create_task(exits(4)))])
    assert result.error == "own: the criterion raised AgentError: SystemExit(4): a task tried to end the process"


def test_two_runs_in_one_loop(capfd: pytest.CaptureFixture[str]) -> None:
    """A run that ends leaves the other one its protection, and the last one puts everything back."""

    async def long(text: str) -> str:
        await asyncio.sleep(0.03)
        print("late")
        await asyncio.create_task(exits(3))
        return "ok"

    async def main() -> list[EvalReport]:
        loop = asyncio.get_running_loop()
        before = sys.stdout
        both = [AgentEvaluator(agent, config=config()).evaluate(eval_set(case())) for agent in (ok, long)]
        reports = await asyncio.gather(*both)
        assert loop.get_task_factory() is None
        assert before is sys.stdout
        return reports

    first, second = asyncio.run(main())
    assert outcomes(first) == ["passed"]
    assert outcomes(second) == ["error"]
    assert second.results[0].stdout == "late\n"
    assert capfd.readouterr().out == ""


def test_task_factory_of_the_caller() -> None:
    """A task factory that the caller has set keeps making the tasks, and is there again afterwards."""
    made: list[Any] = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **options)

    async def main() -> EvalReport:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        report = await AgentEvaluator(ok, config=config()).evaluate(eval_set(case()))
        assert factory is loop.get_task_factory()
        return report

    assert asyncio.run(main()).passed
    assert made
