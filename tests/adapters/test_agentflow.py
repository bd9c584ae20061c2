"""10xgraph graphs: what is recorded of them, and that it stays with its case."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import types
import uuid
from pathlib import Path
from typing import Any

import pytest

if sys.version_info < (3, 12):
    pytest.skip("10xgraph needs Python >= 3.12", allow_module_level=True)

from injectq import InjectQ
from pydantic import ValidationError
from tenxgraph.core.state import AgentState, Message, ToolResult
from tenxgraph.core.state.message_block import ToolResultBlock
from tenxgraph.runtime.publisher import BasePublisher
from tenxgraph.utils import Command
from tenxgraph.utils.callbacks import CallbackManager, InvocationType
from tenxgraph.utils.interrupt import interrupt

from agentflow_eval import (
    AgentEvaluator,
    CriteriaConfig,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    EvalReport,
    EvalSet,
    ExecutionResult,
    Invocation,
    MatchType,
    MessageContent,
    ReporterConfig,
    Session,
    SessionInput,
    StepType,
    TargetError,
    ToolCall,
    TrajectoryCollector,
    adapt,
    create_eval_app,
    make_trajectory_callback,
)
from agentflow_eval.adapters.agentflow import AgentflowTarget
from agentflow_eval.result import EvalCaseResult, Outcome
from tests.adapters import driving
from tests.adapters.agentflow_graphs import (
    Model,
    asks,
    build_graph,
    chain,
    lookup_capital,
    numbered,
    repeat,
    requesting,
    says,
    tool_graph,
)
from tests.adapters.driving import calls, judged
from tests.readme import PASSED, example_of, run_example

pytestmark = pytest.mark.agentflow

ROOT = Path(__file__).parents[2]
QUIET = ReporterConfig(enabled=False)
TRAJECTORY = CriteriaConfig(
    trajectory=CriterionConfig.trajectory(match_type=MatchType.IN_ORDER), node_order=CriterionConfig.node_order()
)


class City(AgentState):  # type: ignore[misc]  # the runtime is not there for the type checker
    """A state with a field of its own."""

    city: str = "nowhere"


async def where(state: City) -> Message:
    """Says where it is, and how long the conversation is."""
    return says(f"{state.city} {len(state.context)}")


async def judge(prompt: str) -> str:
    """Likes everything."""
    return '{"score": 1.0, "reasoning": "fine"}'


def capital(country: str, answer: str, number: int = 1) -> EvalCase:
    return EvalCase.single_turn(
        eval_id=f"capitals-{number:03}",
        user_query=f"What is the capital of {country}?",
        expected_response=answer,
        expected_tools=[ToolCall(name="lookup_capital", args={"country": country})],
        expected_node_order=["MAIN", "TOOL", "MAIN"],
    )


def capitals() -> EvalSet:
    cases = [
        capital("France", "The capital of France is Paris."),
        capital("Germany", "The capital of Germany is Berlin.", 2),
    ]
    return EvalSet(eval_set_id="capitals", name="Capital cities", eval_cases=cases)


def evaluated(app: Any, collector: TrajectoryCollector | None = None, **settings: Any) -> EvalReport:
    config = EvalConfig(criteria=TRAJECTORY, reporter=QUIET, **settings)
    return AgentEvaluator(app, collector, config=config).run_sync(capitals())


def say(graph: Any, *texts: str, session: Session | None = None, **options: Any) -> ExecutionResult:
    """What a conversation records; each has a thread of its own, because all graphs share one memory."""
    return driving.say(graph, *texts, session=session or Session(thread_id=uuid.uuid4().hex), **options)


def message(text: str) -> dict[str, Any]:
    return {"messages": [Message.text_message(text)]}


# The documented wiring


def test_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    """The documented example: nodes, tools, answers and both criteria."""
    app, collector = create_eval_app(build_graph())
    config = EvalConfig(
        criteria=CriteriaConfig(
            trajectory=CriterionConfig.trajectory(threshold=1.0, match_type=MatchType.IN_ORDER),
            response_match=CriterionConfig.response_match(threshold=0.8),
        ),
        reporter=QUIET,
    )
    evaluator = AgentEvaluator(app, collector, config=config, judge=judge)
    report = asyncio.run(evaluator.evaluate(capitals(), verbose=True))
    assert report.passed
    assert "2" in report.format_summary()
    assert f"{report.summary.pass_rate:.0%}" == "100%"
    first = report.results[0]
    assert first.node_visits == ["MAIN", "TOOL", "MAIN"]
    assert first.actual_response == "The capital of France is Paris."
    assert calls(first) == [("lookup_capital", {"country": "France"})]
    assert first.actual_tool_calls[0].result == "Paris"


@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "app"])
def test_without_any_wiring(compiled: bool) -> None:
    """A graph is an agent, compiled or not, with or without a collector."""
    graph = build_graph().compile() if compiled else build_graph()
    assert evaluated(graph).passed


def test_explicit_wiring() -> None:
    """The manager of make_trajectory_callback goes to compile(), and evaluation and other runs are recorded."""
    collector = TrajectoryCollector(capture_all_events=True)
    same, manager = make_trajectory_callback(collector, config={"thread_id": "eval-1"})
    assert same is collector
    app = build_graph().compile(callback_manager=manager)
    assert evaluated(app, collector).passed
    assert collector.trajectory == []
    asyncio.run(app.ainvoke(message("What is the capital of France?")))
    assert [(step.step_type, step.name) for step in collector.trajectory] == [
        (StepType.NODE, "MAIN"),
        (StepType.TOOL, "lookup_capital"),
        (StepType.NODE, "TOOL"),
        (StepType.NODE, "MAIN"),
    ]
    assert collector.final_response == "The capital of France is Paris."
    assert collector.tool_calls[0].result == "Paris"
    assert {event.thread_id for event in collector.events} == {"eval-1"}


def test_runs_outside_go_to_their_own_app() -> None:
    """Each app of create_eval_app has its own collector, also when they take turns."""
    apps = [create_eval_app(build_graph()) for _ in range(3)]
    for index in (1, 0, 2, 1):
        app, collector = apps[index]
        before = len(collector.tool_calls)
        app.invoke(message("What is the capital of Germany?"))
        assert len(collector.tool_calls) == before + 1
    assert [len(collector.node_visits) for _, collector in apps] == [3, 6, 3]


def test_a_compiled_app_can_be_given() -> None:
    """create_eval_app takes a graph that is compiled already as it is."""
    compiled = build_graph().compile()
    app, collector = create_eval_app(compiled)
    assert app is compiled
    app.invoke(message("What is the capital of France?"))
    assert collector.node_visits == ["MAIN", "TOOL", "MAIN"]


def test_nobody_listens_any_more() -> None:
    """A collector that its owner has dropped is forgotten."""
    collector = TrajectoryCollector()
    make_trajectory_callback(collector)
    app = build_graph().compile()
    del collector
    gc.collect()
    assert app.invoke(message("What is the capital of France?"))["messages"][-1].text().endswith("Paris.")


def test_raw_events() -> None:
    """capture_all_events keeps the runtime's event objects; without it there are none."""
    app, collector = create_eval_app(build_graph())
    app.invoke(message("What is the capital of France?"))
    kinds = [(event.event, event.event_type, event.node_name) for event in collector.events]
    assert kinds[:3] == [
        ("node_execution", "start", "MAIN"),
        ("node_execution", "end", "MAIN"),
        ("node_execution", "start", "TOOL"),
    ]
    assert ("tool_execution", "end", "lookup_capital") in kinds
    app, collector = create_eval_app(build_graph(), capture_all_events=False)
    app.invoke(message("What is the capital of France?"))
    assert (collector.events, len(collector.node_visits)) == ([], 3)


@pytest.mark.parametrize("several", [False, True], ids=["one", "list"])
def test_collector_is_a_publisher(several: bool) -> None:
    """A collector may be the publisher of a graph."""
    collector = TrajectoryCollector(capture_all_events=True)
    create_eval_app(build_graph())
    assert isinstance(collector, BasePublisher)

    async def run() -> None:
        graph = chain(
            ("MAIN", where), state=City(), container=InjectQ(), publisher=[collector] if several else collector
        )
        inner = graph.compile()
        await inner.ainvoke(message("hi"))
        await asyncio.sleep(0.05)
        await inner.aclose()

    asyncio.run(run())
    assert "graph_execution" in {event.event for event in collector.events}


# Front doors


def test_evaluate_sync_twice() -> None:
    """Each call has an event loop of its own."""
    app, collector = create_eval_app(build_graph())
    config = EvalConfig(criteria=TRAJECTORY, reporter=QUIET, parallel=True)
    for _ in range(2):
        assert AgentEvaluator.evaluate_sync(app, collector, capitals(), config).passed


@pytest.mark.parametrize("name", ["graph", "compiled_graph", "agent_graph", "app"])
@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "app"])
def test_evaluate_file(name: str, compiled: bool, tmp_path: Path) -> None:
    """A module exposes its graph under any of the usual names, compiled or not."""
    module = types.ModuleType("my_agent")
    setattr(module, name, build_graph().compile() if compiled else build_graph())
    capitals().to_file(tmp_path / "capitals.json")
    EvalConfig(criteria=TRAJECTORY, reporter=QUIET).to_file(tmp_path / "config.json")
    paths = tmp_path / "capitals.json", tmp_path / "config.json"
    assert asyncio.run(AgentEvaluator.evaluate_file(module, *map(str, paths))).passed


def test_without_the_package(tmp_path: Path) -> None:
    """The message names what to install."""
    code = """
        import sys
        sys.modules.update(dict.fromkeys(("tenxgraph", "agentflow")))
        import agentflow_eval
        for call in (agentflow_eval.make_trajectory_callback, agentflow_eval.create_eval_app):
            try:
                call(agentflow_eval.TrajectoryCollector())
            except agentflow_eval.MissingExtraError as exc:
                print(exc)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    for name, line in zip(("make_trajectory_callback", "create_eval_app"), done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{name} needs the extra 'agentflow': pip install 'agentflow-eval[agentflow]'")


# Common errors


def test_error_free_form_criteria() -> None:
    """Unknown criteria are refused by name."""
    with pytest.raises(ValidationError, match="no_such_criterion"):
        EvalConfig(criteria={"no_such_criterion": {}})


def test_error_tuple_as_manager() -> None:
    """make_trajectory_callback gives a tuple, and the manager is its second element."""
    wiring = make_trajectory_callback(TrajectoryCollector())
    assert isinstance(wiring, tuple)
    assert isinstance(wiring[1], CallbackManager)


def test_error_foreign_manager() -> None:
    """Better than documented: a graph compiled without the collector's manager is seen all the same."""
    app = build_graph().compile(callback_manager=CallbackManager())
    assert evaluated(app, TrajectoryCollector()).passed


def test_error_missing_eval_set() -> None:
    """A path that does not exist is a FileNotFoundError that names it."""
    app, collector = create_eval_app(build_graph())
    evaluator = AgentEvaluator(app, collector, config=EvalConfig(criteria=TRAJECTORY, reporter=QUIET))
    with pytest.raises(FileNotFoundError, match=r"no/such\.json"):
        asyncio.run(evaluator.evaluate("no/such.json"))


def test_error_attributes_that_do_not_exist() -> None:
    """The rate is in the summary, and a case is known by its eval_id."""
    report = evaluated(build_graph())
    assert not hasattr(report, "overall_score")
    assert not hasattr(report.results[0], "case_id")
    assert (report.summary.pass_rate, report.results[0].eval_id) == (1.0, "capitals-001")
    assert report.summary.criterion_stats["node_order_score"].passed == 2


def test_error_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Better than documented: a judge that cannot be reached is an error of its criterion, not a score of 0.5."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    criteria = CriteriaConfig(response_match=CriterionConfig.response_match())
    config = EvalConfig(criteria=criteria, reporter=QUIET)
    result = AgentEvaluator(build_graph(), config=config).run_sync(capitals()).results[0]
    judged_by = result.get_criterion_result("response_match_score")
    assert judged_by is not None
    assert (result.outcome, judged_by.score, judged_by.is_error) == (Outcome.ERROR, None, True)


def test_error_exact_with_extra_calls() -> None:
    """EXACT fails on an extra call and names it; IN_ORDER allows it."""
    case = capital("France", "?")
    graph = tool_graph(
        requesting(("lookup_capital", {"country": "France"}), ("lookup_capital", {"country": "Germany"})),
        lookup_capital,
    )
    scores = {}
    for match_type in (MatchType.EXACT, MatchType.IN_ORDER):
        criteria = CriteriaConfig(trajectory=CriterionConfig.trajectory(match_type=match_type))
        config = EvalConfig(criteria=criteria, reporter=QUIET)
        report = AgentEvaluator(graph, config=config).run_sync(EvalSet(eval_set_id="s", eval_cases=[case]))
        scores[match_type] = report.results[0].criterion_results[0]
    assert not scores[MatchType.EXACT].passed
    assert "lookup_capital" in (scores[MatchType.EXACT].reason or "")
    assert scores[MatchType.IN_ORDER].passed


def test_error_graph_that_raises() -> None:
    """Every case is an error, and its result says what the graph raised and where."""

    async def fails(state: AgentState) -> Message:
        raise KeyError("no such city")

    report = evaluated(chain(("MAIN", fails)))
    assert report.summary.error_cases == len(report.results)
    result = asyncio.run(
        AgentEvaluator(chain(("MAIN", fails)), config=EvalConfig(reporter=QUIET)).evaluate_case(capital("France", ""))
    )
    assert "no such city" in (result.error or "")
    assert result.error_kind == "agent"
    assert result.node_visits == ["MAIN"]


# What is recorded


@pytest.mark.parametrize(
    "returned",
    [
        lambda: "hello",
        lambda: says("hello"),
        lambda: [says("hello")],
        lambda: Command(update=says("hello")),
    ],
    ids=["text", "message", "list", "command"],
)
def test_plain_function_nodes(returned: Any) -> None:
    """Whatever a function node returns, its visit and its text are seen; the model has not been asked twice."""
    asked = []

    def node(state: AgentState) -> Any:
        asked.append(1)
        return returned()

    ran = say(chain(("FIRST", lambda state: state), ("LAST", node)))
    assert ran.node_visits == ["FIRST", "LAST"]
    assert ran.actual_response == "hello"
    assert [(one.node_name, one.response_text) for one in ran.node_responses] == [("LAST", "hello")]
    assert ran.node_responses[0].input_messages == [{"role": "user", "content": "hi"}]
    assert asked == [1]


@pytest.mark.parametrize("kind", ["agent", "function"])
def test_the_model_is_asked_once(kind: str) -> None:
    """An agent node and a function that returns a converter ask their model once, and its tokens are counted."""
    model = Model()

    async def node(state: AgentState, config: dict[str, Any]) -> Any:
        return await model.execute(state, config)

    ran = say(chain(("MAIN", model if kind == "agent" else node)))
    assert (model.asked, ran.actual_response, ran.node_visits) == (1, "answer 1", ["MAIN"])
    usage = ran.node_responses[0].token_usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cache_read_tokens) == (7, 2, 9, 3)
    assert ran.token_usage == usage


def test_parallel_calls_keep_the_order_of_the_request() -> None:
    """Calls of one message end in any order, and are recorded as requested with each its own result."""

    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return f"waited {seconds}"

    ran = say(tool_graph(requesting(*[("wait", {"seconds": s}) for s in (0.03, 0.0, 0.01)]), wait))
    assert [(call.args["seconds"], call.result, call.call_id) for call in ran.tool_calls] == [
        (0.03, "waited 0.03", "call_0"),
        (0.0, "waited 0.0", "call_1"),
        (0.01, "waited 0.01", "call_2"),
    ]


def test_tools_that_fail() -> None:
    """Raising tools, unknown tools, malformed and missing arguments are calls with an error, in request order."""

    def fail(x: int) -> str:
        raise ValueError(f"no {x}")

    def refuse() -> ToolResult:
        return ToolResult(message="not allowed", is_error=True)

    wanted = [("fail", {"x": 1}), ("nope", {}), ("fail", "{x"), ("fail", {}), ("lookup_capital", {"country": "France"})]
    ran = say(tool_graph(requesting(*wanted), fail, lookup_capital))
    assert [call.name for call in ran.tool_calls] == [name for name, _ in wanted]
    errors = [call.error for call in ran.tool_calls]
    for part, error in zip(
        ["no 1", "Tool 'nope' not found", "not valid JSON", "Missing required", ""], errors, strict=True
    ):
        assert part in (error or "")
    assert ran.tool_calls[2].args == {"raw": "{x"}
    assert (errors[4], ran.tool_calls[4].result) == (None, "Paris")
    assert ran.node_visits == ["MAIN", "TOOL", "MAIN"]
    refused = tool_graph(_once(asks(("refuse", {}))), refuse)
    assert say(refused).tool_calls[0].error == "not allowed"


def _once(first: Message) -> Any:
    """A MAIN that gives this message, and then an answer."""
    given: list[Message] = []

    async def main(state: AgentState) -> Message:
        if given:
            return says("done")
        given.append(first)
        return first

    return main


@pytest.mark.parametrize(
    ("value", "expected"),
    [("text", "text"), ({"a": 1, "status": "ok"}, {"a": 1, "status": "ok"}), ([1, 2], [1, 2]), (None, None), (7, 7)],
    ids=str,
)
def test_results_are_what_the_tool_returned(value: Any, expected: Any) -> None:
    """Not what the runtime makes of them for the model."""

    def give() -> Any:
        return value

    assert say(tool_graph(requesting(("give", {})), give)).tool_calls[0].result == expected


def test_results_in_types_of_the_runtime() -> None:
    """A tool that answers with a message is recorded with what the message says."""

    def give(tool_call_id: str) -> Message:
        return Message.tool_message([ToolResultBlock(call_id=tool_call_id, output=[{"a": 1}])])

    assert say(tool_graph(requesting(("give", {})), give)).tool_calls[0].result == {"a": 1}


def test_injected_arguments_are_not_recorded() -> None:
    """State, config and call id are the runtime's, not the model's."""
    seen = []

    def tool(x: int, state: AgentState, config: dict[str, Any], tool_call_id: str) -> str:
        seen.append((x, bool(state.context), config["thread_id"], tool_call_id))
        return "ok"

    ran = say(tool_graph(requesting(("tool", {"x": 1})), tool))
    assert calls(ran) == [("tool", {"x": 1})]
    assert [(x, state, call_id) for x, state, _, call_id in seen] == [(1, True, "call_0")]
    assert "thread_id" not in str([step.model_dump() for step in ran.trajectory])


def test_handovers() -> None:
    """A handover is a call that led to the other node."""
    graph = tool_graph(_once(asks(("transfer_to_MAIN", {}))))
    ran = say(graph)
    assert ran.node_visits == ["MAIN", "TOOL", "MAIN"]
    assert ran.tool_calls[0].result == "handed over to MAIN"


def test_call_ids_that_repeat() -> None:
    """A model that numbers its calls anew in every message, or gives two calls one id, is followed all the same."""

    async def main(state: AgentState) -> Message:
        said = len([one for one in state.context if one.role == "assistant"])
        if said == 2:
            return says("done")
        both = asks(("repeat", {"number": f"a{said}"}), ("repeat", {"number": f"b{said}"}))
        both.tools_calls[1]["id"] = both.tools_calls[0]["id"]
        return both

    ran = say(tool_graph(main, repeat))
    assert [call.result for call in ran.tool_calls] == ["async a0", "async b0", "async a1", "async b1"]


def test_requests_that_nobody_runs() -> None:
    """A graph that ends on a request shows the call as one that never ran."""
    ran = say(chain(("MAIN", lambda state: asks(("tool", {"x": 1})))))
    assert (ran.tool_calls[0].error, ran.actual_response) == ("requested, but never run", "")


def test_graphs_inside_of_nodes_and_tools() -> None:
    """Inner nodes are named by their path, and their tools are recorded."""
    inner = build_graph().compile()

    async def node(state: AgentState) -> Message:
        await inner.ainvoke(message("What is the capital of France?"))
        found = await inner.ainvoke(message("What is the capital of Germany?"))
        return says(found["messages"][-1].text())

    def in_thread(state: AgentState) -> Message:
        return says(inner.invoke(message("What is the capital of Germany?"))["messages"][-1].text())

    ran = say(chain(("OUTER", node), ("THREAD", in_thread), ("AFTER", lambda state: "bye")))
    once = ["MAIN", "TOOL", "MAIN"]
    expected = [
        "OUTER",
        *[f"OUTER/{name}" for name in once * 2],
        "THREAD",
        *[f"THREAD/{name}" for name in once],
        "AFTER",
    ]
    assert ran.node_visits == expected
    assert [call.args["country"] for call in ran.tool_calls] == ["France", "Germany", "Germany"]
    assert ran.actual_response == "bye"


def test_callbacks_of_the_user_still_count() -> None:
    """What a user's callbacks return is what the graph gets, and an error they heal stays healed."""
    manager = CallbackManager()
    healed = Message.tool_message([ToolResultBlock(call_id="call_1", output="healed")])
    manager.register_after_invoke(InvocationType.TOOL, lambda context, data, output: f"<{output}>")
    manager.register_on_error(InvocationType.TOOL, lambda context, data, error: healed)

    def fail() -> str:
        raise ValueError("no")

    container = InjectQ()
    graph = tool_graph(
        requesting(("lookup_capital", {"country": "France"}), ("fail", {})), lookup_capital, fail, container=container
    )
    ran = say(graph.compile(callback_manager=manager))
    assert ran.actual_response == "<Paris> | healed"
    assert [call.result for call in ran.tool_calls] == ["<Paris>", "healed"]
    InjectQ().activate()


# Conversations


def test_one_history_per_conversation() -> None:
    """Each turn sends the new message alone, and the graph knows what was said before."""
    graph = chain(("MAIN", where), state=City())
    ran = say(graph, "one", "two", "three")
    assert [turn.agent_response for turn in ran.turns] == ["nowhere 1", "nowhere 3", "nowhere 5"]
    assert say(graph, "one", session=Session(thread_id="t2")).actual_response == "nowhere 1"


def test_state_and_config_of_the_session() -> None:
    """The state goes into the first turn, config into every run, and neither leaks into the next case."""
    seen = []

    async def node(state: City, config: dict[str, Any]) -> Message:
        seen.append((config["user_id"], config.get("tenant"), config["thread_id"]))
        return says(state.city)

    given = SessionInput(user_id="ada", state={"city": "Rome"}, config={"tenant": "acme"})
    turns = [Invocation.simple("a", "Rome"), Invocation.simple("b", "Rome")]
    cases = [
        EvalCase(eval_id="a", session_input=given, conversation=turns),
        EvalCase(eval_id="b", conversation=[Invocation.simple("a", "nowhere")]),
    ]
    config = EvalConfig(criteria=CriteriaConfig(rouge_match=CriterionConfig.rouge_match(threshold=1.0)), reporter=QUIET)
    report = AgentEvaluator(chain(("MAIN", node), state=City()), config=config).run_sync(
        EvalSet(eval_set_id="s", eval_cases=cases)
    )
    assert report.passed
    assert [(user, tenant) for user, tenant, _ in seen] == [("ada", "acme"), ("ada", "acme"), ("test_user", None)]
    assert len({thread for _, _, thread in seen}) == 2


def test_options() -> None:
    """initial_state, output_key and output_node work as with other graphs, and names that do not exist are refused."""
    graph = chain(("FIRST", where), ("LAST", lambda state: "bye"), state=City()).compile()
    assert say(graph, initial_state={"city": "Oslo"}, output_node="FIRST").actual_response == "Oslo 1"
    assert say(graph, session=Session("t3", state={"city": "Bern"}), output_key="city").actual_response == "Bern"
    for options, text in (
        ({"output_key": "citty"}, "did you mean 'city'"),
        ({"output_node": "FRST"}, "did you mean 'FIRST'"),
        ({"initial_state": {"town": 1}}, "initial_state 'town' is not in the graph"),
        ({"input_key": "text"}, "as a message"),
    ):
        with pytest.raises(TargetError, match=text):
            adapt(graph, **options)
    with pytest.raises(TargetError, match="expected a StateGraph"):
        AgentflowTarget(object())


def test_messages_with_pictures() -> None:
    """A message with blocks that are not text reaches the graph as it is."""
    image = {"type": "image", "media": {"kind": "url", "url": "https://example.com/a.png"}}
    content = MessageContent(role="user", content=[{"type": "text", "text": "What is this?"}, image])
    graph = chain(("MAIN", lambda state: f"{[block.type for block in state.context[-1].content]}"))
    case = EvalCase(eval_id="a", conversation=[Invocation(user_content=content)])
    result = asyncio.run(AgentEvaluator(graph, config=EvalConfig(reporter=QUIET)).evaluate_case(case))
    assert result.actual_response == "['text', 'image']"


# Bad endings


def test_recursion_limit() -> None:
    """A graph that never ends is its case's error, and what it did until then is kept."""

    async def main(state: AgentState) -> Message:
        return asks(("lookup_capital", {"country": "France"}), ids=f"step{len(state.context)}")

    case = EvalCase(
        eval_id="a",
        session_input=SessionInput(config={"recursion_limit": 5}),
        conversation=[Invocation.simple("hi", "x")],
    )
    evaluator = AgentEvaluator(tool_graph(main, lookup_capital), config=EvalConfig(reporter=QUIET))
    result = asyncio.run(evaluator.evaluate_case(case))
    assert "recursion limit: 5" in (result.error or "")
    assert result.node_visits == ["MAIN", "TOOL", "MAIN", "TOOL"]
    assert [call.result for call in result.actual_tool_calls] == ["Paris", "Paris"]


def test_graphs_that_stop_to_wait() -> None:
    """A breakpoint or a question to a human is an error that says so, never an answer."""

    async def human(state: AgentState) -> Message:
        interrupt("may I?")
        return says("done")

    for graph, text in (
        (build_graph().compile(interrupt_before=["TOOL"]), "at a breakpoint before TOOL"),
        (build_graph().compile(interrupt_after=["MAIN"]), "at a breakpoint after MAIN"),
        (chain(("MAIN", human)), "at MAIN to wait for a human: may I?"),
    ):
        result = judged(graph, "What is the capital of France?")
        assert text in (result.error or "")
        assert result.node_visits == ["MAIN"]


def test_timeouts_keep_the_evidence() -> None:
    """What was running when the time was up is in the result."""

    async def hang() -> str:
        await asyncio.sleep(30)
        return "never"

    result = judged(tool_graph(requesting(("hang", {})), hang), timeout=0.3)
    assert result.timed_out
    assert (result.node_visits, calls(result)) == (["MAIN", "TOOL"], [("hang", {})])


def test_tools_that_end_the_process() -> None:
    """sys.exit in a tool breaks its case and no other."""

    async def leave() -> str:
        sys.exit(0)

    result = judged(tool_graph(requesting(("leave", {})), leave))
    assert result.outcome is Outcome.ERROR
    assert "SystemExit" in (result.error or "")
    assert evaluated(build_graph()).passed


# Isolation


def _check(number: str, result: EvalCaseResult, turns: int) -> None:
    assert result.error is None
    assert result.node_visits == ["MAIN", "TOOL", "MAIN"] * turns
    each = [("repeat", f"async {number}"), ("repeat_in_thread", f"sync {number} {number} True")]
    assert [(call.name, call.result) for call in result.actual_tool_calls] == each * turns
    assert [call.args for call in result.actual_tool_calls] == [{"number": number}] * 2 * turns
    assert result.actual_response == f"{number}: {each[0][1]}, {each[1][1]}"
    assert len(result.node_responses) == 2 * turns
    names = [step.name for step in result.actual_trajectory]
    assert names == ["MAIN", "repeat", "repeat_in_thread", "TOOL", "MAIN"] * turns


@pytest.mark.parametrize(("runs", "turns"), [(200, 1), (60, 3)])
def test_isolation(runs: int, turns: int) -> None:
    """16 cases at a time: not one event in the wrong case, not one lost."""
    numbers = [f"n{number}" for number in range(runs)]
    cases = [EvalCase(eval_id=n, conversation=[Invocation.simple(n, n) for _ in range(turns)]) for n in numbers]
    app, collector = create_eval_app(numbered())
    config = EvalConfig(criteria=CriteriaConfig(rouge_match=CriterionConfig.rouge_match(threshold=0.1)), reporter=QUIET)
    evaluator = AgentEvaluator(app, collector, config=config)
    report = asyncio.run(
        evaluator.evaluate(EvalSet(eval_set_id="s", eval_cases=cases), parallel=True, max_concurrency=16)
    )
    for number, result in zip(numbers, report.results, strict=True):
        _check(number, result, turns)
    assert (collector.trajectory, collector.events) == ([], [])


def test_many_apps_at_once() -> None:
    """Several apps, made and evaluated in one process at the same time, see each its own runs."""
    apps = [create_eval_app(numbered()) for _ in range(3)] + [create_eval_app(chain(("MAIN", where), state=City()))]
    criteria = CriteriaConfig(rouge_match=CriterionConfig.rouge_match(threshold=0.1))
    config = EvalConfig(criteria=criteria, reporter=QUIET, parallel=True, max_concurrency=16)

    async def run() -> list[EvalReport]:
        sets = [
            EvalSet(
                eval_set_id=f"s{a}", eval_cases=[EvalCase.single_turn(f"{a}x{n}", f"{a}x{n}", "x") for n in range(30)]
            )
            for a in range(len(apps))
        ]
        evaluators = [AgentEvaluator(app, collector, config=config) for app, collector in apps]
        return await asyncio.gather(*(one.evaluate(s) for one, s in zip(evaluators, sets, strict=True)))

    reports = asyncio.run(run())
    for report in reports[:3]:
        for result in report.results:
            _check(result.eval_id, result, 1)
    assert {(*result.node_visits, result.actual_response) for result in reports[3].results} == {("MAIN", "nowhere 1")}


def test_apps_with_containers_of_their_own() -> None:
    """A graph may bring its own dependency container."""
    graphs = [chain(("MAIN", where), state=City(), container=InjectQ()).compile() for _ in range(2)]
    for graph in graphs:
        assert say(graph, "a", "b").node_visits == ["MAIN", "MAIN"]
    InjectQ().activate()


# The support example


class Faulty:
    """Two intents that go wrong: a tool that does not exist, and an order number as text."""

    def order(self, now: Any) -> Any:
        """Wants a tool that does not exist."""
        from agentflow_eval.examples.support.rules import Request

        return "I could not find it." if now.outcomes else [Request("get_order", {"order_id": 1001})]

    def track(self, now: Any) -> Any:
        """Gives the number as text."""
        from agentflow_eval.examples.support.rules import Request

        found = [Request("track_shipment", {"order_id": str(order)}) for order in now.orders]
        return "Somewhere." if now.outcomes or not found else found


@pytest.mark.parametrize("faulty", [False, True], ids=["good", "faulty"])
def test_support_agents_get_the_same_verdicts(faulty: bool) -> None:
    """The eval set of the support example cannot tell LangGraph from 10xgraph."""
    from agentflow_eval.examples import support_agentflow
    from agentflow_eval.examples.support import agent
    from agentflow_eval.examples.support.model import SupportModel
    from agentflow_eval.examples.support.rules import SupportRules

    ours, theirs = support_agentflow.graph, agent.graph
    if faulty:
        ours = support_agentflow.build_graph(type("FaultyRules", (Faulty, SupportRules), {})())
        theirs = agent.build_graph(type("FaultyModel", (Faulty, SupportModel), {"__module__": __name__})())
    config = EvalConfig.from_file(ROOT / "configs" / "ci.json").model_copy(update={"reporter": QUIET})
    reports = [
        AgentEvaluator(graph, config=config).run_sync(ROOT / "evalsets" / "support.evalset.json")
        for graph in (ours, theirs)
    ]
    assert reports[0].passed is not faulty
    for one, other in zip(reports[0].results, reports[1].results, strict=True):
        assert _verdict(one) == _verdict(other)


def _verdict(result: EvalCaseResult) -> dict[str, Any]:
    scores = {one.criterion: (one.outcome, one.score, one.reason) for one in result.criterion_results}
    seen = {"nodes": result.node_visits, "answer": result.actual_response, "error": result.error}
    return {"id": result.eval_id, "outcome": result.outcome, "calls": calls(result), **seen, **scores}


def test_readme(tmp_path: Path) -> None:
    """The example of the README runs as pasted."""
    assert PASSED in run_example(tmp_path, example_of("10xgraph (agentflow)"))


def test_shape() -> None:
    """Nodes, edges and tools with their arguments are known before the graph runs."""
    from agentflow_eval.adapters import shape_of
    from agentflow_eval.examples.support_agentflow import graph

    shape = shape_of(adapt(graph))
    assert list(shape.nodes or ()) == ["MAIN", "TOOL"]
    assert ("TOOL", "MAIN") in (shape.edges or ())
    assert set((shape.tools or {})["refund_order"]["properties"]) == {"order_id", "amount", "reason"}


def test_doctor() -> None:
    """The support agent is healthy, and everything of it is seen."""
    from agentflow_eval.doctor import diagnose
    from agentflow_eval.examples.support_agentflow import graph

    found = asyncio.run(diagnose(graph, message="Where is order 1002?")).findings
    assert [(finding.topic, finding.level) for finding in found if finding.level != "ok"] == []
