from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval import (
    AgentEvaluator,
    CriteriaConfig,
    CriterionConfig,
    EndpointResponse,
    EvalCase,
    EvalConfig,
    EvalSet,
    HttpEndpoint,
    ReporterConfig,
    ToolCall,
    adapt,
)
from agentflow_eval.adapters import Session
from agentflow_eval.cli import main
from agentflow_eval.errors import AgentError, LoadError, TargetError
from agentflow_eval.result import EvalCaseResult, Outcome
from tests.adapters.driving import calls, check_isolation, judged, say
from tests.chat_server import Recorded, Reply, Server, completion, html, serving


def tool_call(name: str, arguments: Any, call_id: str = "1", **more: Any) -> dict[str, Any]:
    """A tool call as chat completions write it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}, **more}


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that says hello to everything."""
    with serving([completion("hello")]) as running:
        yield running


def chat(server: Server, **settings: Any) -> HttpEndpoint:
    """The server as an OpenAI-compatible endpoint."""
    return HttpEndpoint(url=server.url, model="m", **settings)


RESPONSE = EndpointResponse(
    answer="reply.text",
    tool_calls="steps[?kind=='tool']",
    tool_arguments="input",
    tool_result="output",
    nodes="steps[?kind=='node'].name",
    input_tokens="usage.read",
    output_tokens="usage.written",
    error="problem",
    conversation="id",
)


def json_agent(server: Server, response: EndpointResponse = RESPONSE, **settings: Any) -> HttpEndpoint:
    """The server as an endpoint of its own kind."""
    request = {
        "say": "{{ text }}",
        "who": "{{ user_id }} of {{ app_name or 'nowhere' }}",
        "id": "{{ conversation }}",
        "all": "{{ messages }}",
        "n": ["{{ turn }}", 1, None, True],
        "state": "{{ state }}",
    }
    return HttpEndpoint(url=server.url, protocol="json", **({"request": request, "response": response} | settings))


# Chat completions


def test_conversation(server: Server) -> None:
    """Every turn sends the whole conversation, after the system prompt, with the given parameters."""
    execution = say(chat(server, system_prompt="Be brief.", parameters={"temperature": 0.5}), "one", "two")
    assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 2
    assert server.requests[0].body == {
        "model": "m",
        "temperature": 0.5,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}],
    }
    assert server.requests[1].body["messages"][1:] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "two"},
    ]
    assert [turn.agent_response for turn in execution.turns] == ["hello", "hello"]
    assert (execution.token_usage.input_tokens, execution.token_usage.output_tokens) == (20, 10)
    assert execution.node_visits == ["endpoint", "endpoint"]
    assert execution.node_responses[1].input_messages == server.requests[1].body["messages"]


def test_tool_calls() -> None:
    """Tool calls are recorded in order; an endpoint that runs its tools may say what came out."""
    asked = [
        tool_call("lookup", {"order": 7}, "a", result={"status": "sent"}),
        tool_call("refund", {"order": 7}, "b", error="not allowed"),
        {"id": "c", "function": {"name": "odd", "arguments": "{"}},
    ]
    with serving([completion("", "tool_calls", tool_calls=asked)]) as server:
        execution = say(chat(server))
    assert calls(execution) == [("lookup", {"order": 7}), ("refund", {"order": 7}), ("odd", {"raw": "{"})]
    assert [call.call_id for call in execution.tool_calls] == ["a", "b", "c"]
    assert (execution.tool_calls[0].result, execution.tool_calls[1].error) == ({"status": "sent"}, "not allowed")
    assert execution.node_responses[0].tool_call_names == ["lookup", "refund", "odd"]
    assert not execution.turns[0].answered


def test_no_tool_call_is_seen_as_none() -> None:
    """A case that expects no tool call is judged, since the endpoint would have shown one."""
    criteria = CriteriaConfig(trajectory=CriterionConfig.trajectory())
    case = EvalCase.single_turn("c", "hi", expected_tools=[])
    with serving([completion("hello")]) as server:
        config = EvalConfig(criteria=criteria, reporter=ReporterConfig(enabled=False), endpoint=chat(server))
        report = AgentEvaluator(config=config).run_sync(EvalSet(eval_set_id="s", eval_cases=[case]))
    assert report.results[0].outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab"),
        (completion(None, refusal="I will not."), "I will not."),
        (completion(None), ""),
    ],
)
def test_answers(reply: Reply, said: str) -> None:
    """Text in parts is joined, a refusal is what was said, and nothing is no answer."""
    with serving([reply]) as server:
        assert say(chat(server)).actual_response == said


# JSON


def test_json_endpoint() -> None:
    """The template makes the request, the expressions find everything in the reply."""
    replies = [
        Reply(
            body={
                "id": 41 + turn,
                "reply": {"text": f"answer {turn}"},
                "usage": {"read": 7, "written": 2},
                "steps": [
                    {"kind": "node", "name": "plan"},
                    {"kind": "tool", "name": "look", "input": {"n": turn}, "output": [1], "id": "x"},
                    {"kind": "tool", "name": "fail", "input": "{}", "error": "boom"},
                    {"kind": "node", "name": "act"},
                ],
            }
        )
        for turn in (1, 2)
    ]
    with serving(replies) as server:
        session = Session(thread_id="t1", app_name="shop", user_id="ann", state={"vip": True})
        execution = say(json_agent(server), '"}}, {{ 1 + 1 }} {% raw %}', "two", session=session)
    first, second = (request.body for request in server.requests)
    assert first == {
        "say": '"}}, {{ 1 + 1 }} {% raw %}',
        "who": "ann of shop",
        "id": None,
        "all": [{"role": "user", "content": '"}}, {{ 1 + 1 }} {% raw %}'}],
        "n": [1, 1, None, True],
        "state": {"vip": True},
    }
    assert (second["id"], second["n"][0], len(second["all"])) == (42, 2, 3)
    assert execution.actual_response == "answer 2"
    assert execution.node_visits == ["plan", "act"] * 2
    assert calls(execution)[:2] == [("look", {"n": 1}), ("fail", {})]
    assert (execution.tool_calls[0].result, execution.tool_calls[1].error) == ([1], "boom")
    assert (execution.token_usage.input_tokens, execution.token_usage.output_tokens) == (14, 4)


def test_numbers_and_empty_answers() -> None:
    """An answer may be any value; an empty text is an answer that says nothing."""
    response = EndpointResponse(answer="a")
    for value, said in ((42, "42"), ("", ""), ({"x": [1]}, '{"x": [1]}')):
        with serving([Reply(body={"a": value})]) as server:
            assert say(json_agent(server, response)).actual_response == said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"reply": {}}, "the reply has no answer at 'reply.text': {\"reply\": {}}"),
        ({"reply": {"text": "x"}, "problem": "out of stock"}, "says that the agent failed: out of stock"),
        ({"reply": {"text": "x"}, "steps": [{"kind": "tool"}]}, "a tool call has no name at 'name'"),
        ([1], "the reply has no answer at 'reply.text': [1]"),
    ],
)
def test_replies_that_do_not_fit(body: Any, said: str) -> None:
    """A reply without an answer, or one that says that the agent failed, is an error of the case."""
    with serving([Reply(body=body)]) as server:
        result = judged(json_agent(server))
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, "agent")
    assert said in str(result.error)


def test_expression_that_finds_no_list() -> None:
    """Tool calls have to be a list."""
    with serving([Reply(body={"a": "x", "t": {"name": "n"}})]) as server:
        result = judged(json_agent(server, EndpointResponse(answer="a", tool_calls="t")))
    assert "response.tool_calls must find a list in the reply" in str(result.error)


@pytest.mark.parametrize(
    ("request_", "said"),
    [({"q": "{{ nothing }}"}, "UndefinedError"), ({"q": "{{ text.__class__.__mro__ }}"}, "SecurityError")],
)
def test_templates_that_cannot_be_rendered(request_: dict[str, Any], said: str, server: Server) -> None:
    """A template is sandboxed, and what it lacks is named."""
    result = judged(json_agent(server, request=request_))
    assert f"endpoint.request cannot be rendered: {said}" in str(result.error)
    assert server.requests == []


def test_template_with_a_syntax_error(server: Server) -> None:
    """A broken template is found before anything runs."""
    with pytest.raises(TargetError, match=r"endpoint\.request: unexpected"):
        adapt(json_agent(server, request={"q": "{{ text "}))


# What goes wrong


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(500, "oops"), "HTTP 500: oops"),
        (
            Reply(302, "", (("Location", "https://other.example/x?key=1"),)),
            "HTTP 302 (moved to https://other.example/x)",
        ),
        (html(), "the reply is not JSON: <!doctype html>"),
        (Reply(body={"choices": []}), "the reply is no chat completion: it has no choices[0].message"),
        (Reply(body=[]), "the reply is no chat completion"),
        (Reply(fault="reset"), "no connection"),
        (Reply(body={"choices": [1, 2, 3]}, fault="half"), "no connection"),
    ],
)
def test_faults(reply: Reply, said: str) -> None:
    """Whatever the endpoint does instead of answering is the case's error, with the address."""
    with serving([reply]) as server:
        result = judged(chat(server))
        assert (result.outcome, result.error_kind) == (Outcome.ERROR, "agent")
        assert f"{server.url}/chat/completions: " in str(result.error)
    assert said in str(result.error)


def test_slow_endpoint() -> None:
    """A call has a limit of its own."""
    with serving([Reply(fault="hang")]) as server:
        result = judged(chat(server, timeout=0.1))
    assert "no reply within 0.1 s" in str(result.error)


def test_no_server(server: Server) -> None:
    """Nobody there is an error, not a failed agent."""
    result = judged(HttpEndpoint(url="http://127.0.0.1:9/v1", model="m"))
    assert "http://127.0.0.1:9/v1/chat/completions: no connection" in str(result.error)


def test_reply_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply has a largest size."""
    monkeypatch.setattr("agentflow_eval.adapters.http._MOST_BYTES", 1_000_000)
    with serving([Reply(body="x" * 1_100_000)]) as server:
        assert "the reply has more than 1 MB" in str(judged(chat(server)).error)


# Secrets


def test_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys come from the environment and are in no message."""
    monkeypatch.setenv("AGENT_KEY", "s3cret-1")
    monkeypatch.setenv("TENANT_TOKEN", "s3cret-2")
    with serving([Reply(401, "no entry for Bearer s3cret-1 and s3cret-2")]) as server:
        endpoint = chat(server, api_key_env="AGENT_KEY", headers={"X-Token": "t ${TENANT_TOKEN}", "X-App": "shop"})
        result = judged(endpoint)
        sent = server.requests[0].headers
    assert (sent["authorization"], sent["x-token"], sent["x-app"]) == ("Bearer s3cret-1", "t s3cret-2", "shop")
    assert "HTTP 401: no entry for Bearer *** and ***" in str(result.error)


def test_missing_variable(server: Server) -> None:
    """A variable that is not set is named before anything runs."""
    with pytest.raises(TargetError, match="needs the environment variable NOT_SET_AT_ALL, which is not set"):
        adapt(chat(server, api_key_env="NOT_SET_AT_ALL"))


# Files


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ({"url": "agents.example.com", "model": "m"}, "endpoint.url: must be an address such as https://"),
        ({"url": "http://a:99999", "model": "m"}, "endpoint.url: must be an address such as https://"),
        ({"url": "http://[::1", "model": "m"}, "endpoint.url: must be an address such as https://"),
        ({"url": "http://a"}, 'endpoint: protocol "openai" needs model'),
        ({"url": "http://a", "protocol": "json"}, 'endpoint: protocol "json" needs request and response'),
        (
            {"url": "http://a", "model": "m", "request": {}},
            'request belongs to protocol "json", and protocol is "openai"',
        ),
        ({"url": "http://a", "model": "m", "modle": 1}, 'unknown key; did you mean "model"?'),
        (
            {"url": "http://a", "model": "m", "headers": {"Authorization": "Bearer abc"}},
            "endpoint.headers.Authorization: Authorization looks like a secret: put it into an environment variable",
        ),
        (
            {"url": "http://a", "protocol": "json", "request": {}, "response": {"answer": "a["}},
            "endpoint.response.answer: not a JMESPath expression",
        ),
    ],
)
def test_bad_config(endpoint: dict[str, Any], said: str, tmp_path: Path) -> None:
    """What is wrong with an endpoint is said with its place when the file is loaded."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"endpoint": endpoint}))
    with pytest.raises(LoadError) as raised:
        EvalConfig.from_file(path)
    assert said in str(raised.value)


def test_two_agents(tmp_path: Path) -> None:
    """A config has one agent, and a name has one meaning."""
    endpoint = {"url": "http://a", "model": "m"}
    with pytest.raises(ValueError, match="give endpoint"):
        EvalConfig.model_validate({"agent": "a:b", "endpoint": endpoint})
    with pytest.raises(ValueError, match="'x' is the name of a target and of an endpoint"):
        EvalConfig.model_validate({"targets": {"x": "a:b"}, "endpoints": {"x": endpoint}})


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A config alone drives an endpoint, and cases choose among several."""
    monkeypatch.chdir(tmp_path)
    EvalSet(
        eval_set_id="s",
        eval_cases=[
            EvalCase.single_turn("main", "hi", "hello", [ToolCall(name="look", args={"n": 1})]),
            EvalCase.single_turn("other", "hi", "bonjour").model_copy(update={"target": "french"}),
        ],
    ).to_file("set.json")
    asked = [tool_call("look", {"n": 1})]
    with serving([completion("hello", tool_calls=asked)]) as one, serving([Reply(body={"a": "bonjour"})]) as two:
        french = {"url": two.url, "protocol": "json", "request": {"q": "{{ text }}"}, "response": {"answer": "a"}}
        criteria = {"exact_match": {}, "trajectory": {"check_args": True}}
        config = {"endpoint": {"url": one.url, "model": "m"}, "endpoints": {"french": french}, "criteria": criteria}
        Path("config.json").write_text(json.dumps(config))
        assert main(["run", "set.json", "--config", "config.json", "--no-report"]) == 0
    assert "PASSED: 2 of 2 cases passed" in capsys.readouterr().out
    assert two.requests[0].body == {"q": "hi"}


# Isolation


def echo(request: Recorded) -> Reply:
    """Says what the last message says, after a tool call about it, sooner or later."""
    said = request.body["messages"][-1]["content"]
    reply = completion(said, tool_calls=[tool_call("slowly", {"number": said}, said)])
    return Reply(body=reply.body, seconds=random.random() / 200)


def test_chat_isolation() -> None:
    """Concurrent conversations keep their records, over few connections."""

    def check(number: int, result: EvalCaseResult) -> None:
        assert calls(result) == [("slowly", {"number": str(number)})] * 2
        assert result.actual_response == str(number)
        assert result.agent_token_usage.input_tokens == 20

    with serving([echo]) as server:
        check_isolation(chat(server), check, turns=2)
        assert (len(server.requests), server.connections <= 20) == (400, True)
        assert 1 < server.most_at_once <= 16


def test_json_isolation() -> None:
    """Every conversation keeps the id that the endpoint gave it."""

    def answer(request: Recorded) -> Reply:
        said = request.body["say"]
        steps = [{"kind": "tool", "name": "look", "input": {"n": said, "id": request.body["id"]}}]
        return Reply(body={"id": f"id {said}", "reply": {"text": said}, "steps": steps}, seconds=random.random() / 200)

    def check(number: int, result: EvalCaseResult) -> None:
        assert [args["id"] for _, args in calls(result)] == [None, f"id {number}"]
        assert {args["n"] for _, args in calls(result)} == {str(number)}

    with serving([answer]) as server:
        check_isolation(json_agent(server), check, turns=2)


def test_a_target_by_itself(server: Server) -> None:
    """The target raises what is wrong to whoever drives it."""
    with serving([Reply(500, "oops")]) as broken, pytest.raises(AgentError, match="HTTP 500"):
        say(chat(broken))
