"""What an adapter costs a case beyond the bare agent: CPU of a turn with two model calls and one tool call.

Run by hand, with the Python that has the runtimes: python -m tests.benchmarks.bench_adapters [rounds]
Runtimes that are not installed are named. The agents are those of the README.
"""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import sys
import time
import types
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from agentflow_eval.adapters import Session, Turn, adapt
from agentflow_eval.collector import CURRENT, TrajectoryCollector
from agentflow_eval.dataset import MessageContent
from tests.readme import example_of

BUDGET_MS, BUDGET_SHARE = 0.2, 0.15
QUESTION = "What is the capital of France?"
CALLS = 100

Bare = Callable[[Any], Awaitable[object]]


async def bare_langgraph(agent: Any) -> object:
    """One run of a LangGraph graph."""
    return await agent.ainvoke({"messages": [("user", QUESTION)]})


async def bare_langgraph_observed(agent: Any) -> object:
    """One run of a LangGraph graph with a callback that does nothing: what LangChain takes for any observer."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Nothing(BaseCallbackHandler):
        run_inline = True

    return await agent.ainvoke({"messages": [("user", QUESTION)]}, {"callbacks": [Nothing()]})


async def bare_10xgraph(agent: Any) -> object:
    """One run of a 10xgraph graph."""
    from tenxgraph.core.state import Message

    return await agent.ainvoke({"messages": [Message.text_message(QUESTION)]}, config={"thread_id": uuid.uuid4().hex})


async def bare_tulip(agent: Any) -> object:
    """One run of a tulip agent."""
    return [event async for event in agent.run(QUESTION, thread_id=uuid.uuid4().hex)]


async def bare_agno(agent: Any) -> object:
    """One run of an agno agent."""
    return await agent.arun(QUESTION, session_id=uuid.uuid4().hex)


async def bare_agno_stream(agent: Any) -> object:
    """One run of an agno agent that tells what it does."""
    return [event async for event in agent.arun(QUESTION, session_id=uuid.uuid4().hex, stream=True, stream_events=True)]


async def bare_executionkit(agent: Any) -> object:
    """One turn of a kit."""
    return await copy.copy(agent._kit).turn(QUESTION, agent._tools)


async def bare_pydantic_ai(agent: Any) -> object:
    """One run of a pydantic-ai agent."""
    return await agent.run(QUESTION)


async def bare_openai_agents(agent: Any) -> object:
    """One run of an agent of the OpenAI Agents SDK."""
    from agents import RunConfig, Runner

    return await Runner.run(agent, QUESTION, run_config=RunConfig(tracing_disabled=True))


async def bare_ainvoke(agent: Any) -> object:
    """One call of an object with ``ainvoke``."""
    return await agent.ainvoke({"messages": [{"role": "user", "content": QUESTION}]})


RUNTIMES: list[tuple[str, str, str, Bare]] = [
    ("LangGraph", "LangGraph", "langgraph", bare_langgraph),
    ("LangGraph, seen", "LangGraph", "langgraph", bare_langgraph_observed),
    ("10xgraph", "10xgraph (agentflow)", "tenxgraph", bare_10xgraph),
    ("tulip", "tulip", "tulip", bare_tulip),
    ("agno", "agno", "agno", bare_agno),
    ("agno, streamed", "agno", "agno", bare_agno_stream),
    ("executionkit", "executionkit", "executionkit", bare_executionkit),
    ("pydantic-ai", "pydantic-ai", "pydantic_ai", bare_pydantic_ai),
    ("OpenAI Agents", "OpenAI Agents SDK", "agents", bare_openai_agents),
    ("ainvoke", "An object with ainvoke", "asyncio", bare_ainvoke),
]


async def adapted(target: Any) -> object:
    """One turn as the engine plays it."""
    collector = TrajectoryCollector()
    CURRENT.set(collector)
    collector.begin_turn(QUESTION)
    await target.run_turn(Turn(0, QUESTION, MessageContent.user(QUESTION)), Session(uuid.uuid4().hex), collector)
    collector.end_turn()
    collector.finish()
    return collector.execution()


async def milliseconds(run: Callable[[Any], Awaitable[object]], subject: Any) -> float:
    """CPU of one of ``CALLS`` runs."""
    began = time.process_time()
    for _ in range(CALLS):
        await run(subject)
    return (time.process_time() - began) / CALLS * 1000


async def compare(agent: Any, bare: Bare, rounds: int) -> tuple[float, float]:
    """The least CPU of a bare and of an adapted run, taken in turns."""
    target = adapt(agent)
    subject = agent.compile() if hasattr(agent, "compile") and not hasattr(agent, "ainvoke") else agent
    await milliseconds(bare, subject)
    await milliseconds(adapted, target)
    pairs = [(await milliseconds(bare, subject), await milliseconds(adapted, target)) for _ in range(rounds)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def main() -> None:
    """Prints the figures."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    for name, example, module, bare in RUNTIMES:
        if importlib.util.find_spec(module) is None:
            print(f"{name:<16} not installed")
            continue
        module_of_agent = sys.modules["my_agent"] = types.ModuleType("my_agent")
        exec(compile(example_of(example), "my_agent.py", "exec"), module_of_agent.__dict__)
        try:
            without, with_adapter = asyncio.run(compare(module_of_agent.agent, bare, rounds))
        except Exception as exc:
            print(f"{name:<16} cannot run here: {exc}")
            continue
        cost, budget = with_adapter - without, max(BUDGET_MS, BUDGET_SHARE * without)
        share = f"{cost / without:+.0%}; budget {budget:.3f} ms"
        print(f"{name:<16} bare {without:6.3f} ms  adapter {cost:+6.3f} ms  ({share})")


if __name__ == "__main__":
    main()
