"""Judged cases against a local server: wall clock, CPU of the framework, and a re-run from the cache.

    python -m tests.benchmarks.bench_judge [CASES]

The server is an asyncio process that answers after 50 ms and shares the cores of the machine. The wall clock is the
median of three runs; the ideal is calls / concurrency * latency. CPU of the framework is that of the whole run less the
CPU that the client library alone takes for the same requests, less that of a run without judged criteria.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from agentflow_eval.config import EvalConfig
from agentflow_eval.dataset import EvalCase, EvalSet
from agentflow_eval.evaluator import AgentEvaluator

LATENCY_SECONDS = 0.05
CONCURRENCY = 32
SAMPLES = 3
CASES_AT_ONCE = 32
RUNS = 3
REPLY = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "bench",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": '{"reasoning": "says the same", "score": 0.9}'},
        }
    ],
    "usage": {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320},
}


class Answering(asyncio.Protocol):
    """Reads requests with a Content-Length and answers each after the latency."""

    body = json.dumps(REPLY).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    def __init__(self) -> None:
        self.received = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, end, rest = self.received.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(rest) >= length:
            self.received = rest[length:]
            asyncio.get_running_loop().call_later(LATENCY_SECONDS, self.transport.write, self.answer)


async def serve() -> None:
    """Serves until it is ended; the first line of output is the port."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def agent(text: str, run: Any) -> str:
    """Answers at once."""
    run.node("MAIN")
    return f"The answer to {text} is what was asked for, in a sentence of usual length."


def cases(count: int) -> EvalSet:
    """Cases with an expected answer."""
    made = [
        EvalCase.single_turn(f"case_{number}", f"question number {number}?", "An answer of usual length, as expected.")
        for number in range(count)
    ]
    return EvalSet(eval_set_id="bench", eval_cases=made)


def config(url: str, criteria: dict[str, Any], cache: Path | None = None) -> EvalConfig:
    """The config of a run."""
    return EvalConfig.model_validate(
        {
            "criteria": criteria,
            "parallel": True,
            "max_concurrency": CASES_AT_ONCE,
            "judge": {"base_url": url, "max_concurrency": CONCURRENCY},
            "judge_cache": str(cache) if cache else None,
            "reporter": {"enabled": False},
        }
    )


def timed(work: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[float, float, Any]:
    """Wall clock and CPU seconds of a coroutine, and what it gave."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = asyncio.run(work())
    return time.perf_counter() - wall, time.process_time() - cpu, result


def judged_run(url: str, count: int, cache: Path | None = None) -> tuple[float, float, Any]:
    """A run in which every case is judged."""
    criteria = {"response_match": {"judge_model": "bench", "num_samples": SAMPLES}}
    evaluator = AgentEvaluator(agent, config=config(url, criteria, cache))
    eval_set = cases(count)
    wall, cpu, report = timed(lambda: evaluator.evaluate(eval_set))
    assert report.passed, report.results[0].error
    return wall, cpu, report


def plain_run(url: str, count: int) -> float:
    """CPU seconds of the same cases without a judge."""
    evaluator = AgentEvaluator(agent, config=config(url, {"rouge_match": {"threshold": 0.0}}))
    eval_set = cases(count)
    return timed(lambda: evaluator.evaluate(eval_set))[1]


def client_alone(url: str, count: int) -> float:
    """CPU seconds of the client library for as many requests of the same size."""
    import aiohttp

    async def work() -> None:
        body = {"model": "bench", "messages": [{"role": "user", "content": "x" * 1500}], "temperature": 0.0}
        left = iter(range(count))

        async def worker() -> None:
            for _ in left:
                async with session.post(f"{url}/chat/completions", data=json.dumps(body).encode()) as response:
                    json.loads(await response.read())

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))

    return timed(work)[1]


def main(count: int) -> None:
    """Measures and prints."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_judge", "serve"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        try:
            judged_run(url, 20)
            measure(url, count, Path(folder) / "cache.db", server.pid)
        finally:
            server.terminate()


def cpu_of(process: int) -> float:
    """CPU seconds that another process has taken so far; NaN where the system does not say."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(url: str, count: int, cache: Path, server: int) -> None:
    """Prints the figures beside their budgets."""
    calls = count * SAMPLES
    ideal = calls / CONCURRENCY * LATENCY_SECONDS
    before = cpu_of(server)
    runs = [judged_run(url, count)[:2] for _ in range(RUNS)]
    served = (cpu_of(server) - before) / RUNS
    walls = [wall for wall, _ in runs]
    wall, cpu = statistics.median(walls), statistics.median(cpu for _, cpu in runs)
    client, plain = client_alone(url, calls), plain_run(url, count)
    print(f"{count} cases, {calls} calls, {CONCURRENCY} at once, {LATENCY_SECONDS * 1000:.0f} ms each")
    print(f"wall clock        {wall:6.2f} s   {wall / ideal:5.2f} x ideal ({ideal:.2f} s), budget 1.30 x")
    print(f"                  runs {', '.join(f'{wall / ideal:.2f} x' for wall in walls)}")
    per_call = (cpu - client - plain) / calls * 1000
    print(f"framework CPU     {per_call:6.3f} ms per call, budget 2 ms")
    print(f"                  all {cpu:.2f} s, client library {client:.2f} s, cases without judge {plain:.2f} s")
    print(f"                  the server's own process {served:.2f} s")
    judged_run(url, count, cache)
    again, _, report = judged_run(url, count, cache)
    assert report.judge_use["reused"] == calls
    print(f"re-run from cache {again / calls * 1000:6.3f} ms per verdict, budget 0.5 ms")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
