"""Judges over the network, against a real server that misbehaves."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import pytest

from agentflow_eval.config import JudgeSettings
from agentflow_eval.errors import JudgeError, MissingExtraError, UsageError
from agentflow_eval.judge import JudgeReply, JudgeRequest, Judges, NoReplyError, Prompt, Question
from agentflow_eval.judge.providers import OpenAIJudge, provider_from_env, resolve
from agentflow_eval.result import NO_TOKENS, TokenUsage
from tests.chat_server import GOOD, Reply, Server, completion, date_in, error, html, serving

KEY = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}, "example": {"score": 0.5}}
MESSAGES = ({"role": "system", "content": "be fair"}, {"role": "user", "content": "how good?"})
REQUEST = JudgeRequest(MESSAGES, SCHEMA)
QUESTION = Question(Prompt(MESSAGES, "how good?", SCHEMA), "custom-model")


def settings(server: Server | None = None, **values: Any) -> JudgeSettings:
    """Settings for a server."""
    return JudgeSettings(base_url=server.url if server else None, api_key_env="SECRET", **{"timeout": 20.0, **values})


def judge_for(server: Server, **values: Any) -> OpenAIJudge:
    """A judge that asks the server, with a key that must never be seen."""
    return resolve("custom-model", settings(server, **values), {"SECRET": KEY})


async def asked(judge: OpenAIJudge, requests: Sequence[JudgeRequest] = (REQUEST,)) -> list[JudgeReply]:
    """The replies to requests one after the other, the connections closed at the end."""
    try:
        return [await judge.ask(request) for request in requests]
    finally:
        await judge.close()


def reply_of(script: Sequence[Reply], **values: Any) -> tuple[JudgeReply, Server]:
    """The reply that a script leads to, and what the server saw."""
    with serving(script) as server:
        return asyncio.run(asked(judge_for(server, **values)))[0], server


def failure_of(script: Sequence[Reply], **values: Any) -> tuple[NoReplyError, Server]:
    """The error that a script leads to; the key is not in it."""
    with serving(script) as server, pytest.raises(NoReplyError) as caught:
        asyncio.run(asked(judge_for(server, **values)))
    assert KEY not in f"{caught.value} {caught.value.__cause__} {vars(caught.value)}"
    assert "custom-model" in str(caught.value)
    return caught.value, server


def test_verdict() -> None:
    """A good reply brings text, tokens and the serving model; the request holds what it must."""
    reply, server = reply_of([completion()], temperature=0.3, max_tokens=99)
    tokens = TokenUsage(input_tokens=10, output_tokens=5, total_tokens=15, cache_read_tokens=4)
    assert JudgeReply(GOOD, tokens, 1, "served-model") == reply
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert f"Bearer {KEY}" == request.headers["authorization"]
    schema = {key: value for key, value in SCHEMA.items() if key != "example"}
    assert {
        "model": "custom-model",
        "messages": list(MESSAGES),
        "temperature": 0.3,
        "max_tokens": 99,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "schema": schema, "strict": True},
        },
    } == request.body


def test_parameters_of_a_request() -> None:
    """A later sample has a seed; a request's own temperature and thinking budget win; null leaves parameters out."""
    request = JudgeRequest(MESSAGES, SCHEMA, sample=2, temperature=0.9, thinking_budget=128)
    with serving([completion()]) as server:
        gemini = resolve("gemini-x", settings(server, max_tokens=None), {"SECRET": KEY})
        plain = judge_for(server, temperature=None)
        asyncio.run(asked(gemini, [request]))
        asyncio.run(asked(plain))
    first, second = (recorded.body for recorded in server.requests)
    assert (first["seed"], first["temperature"], "max_tokens" in first) == (2, 0.9, False)
    assert first["extra_body"] == {"google": {"thinking_config": {"thinking_budget": 128}}}
    assert {"seed", "temperature", "extra_body"}.isdisjoint(second)


@pytest.mark.parametrize(
    ("script", "attempts"),
    [
        ([error(429, retry_after=0)] * 2, 3),
        ([error(429, retry_after=date_in(-5))], 2),
        ([error(429, retry_after="Thu, 01 Jan 2015 00:00:00 -0000")], 2),
        ([error(503, retry_after=0), error(500, retry_after=0), error(408, retry_after=0)], 4),
        ([error(409, retry_after=0)], 2),
        ([Reply(503, "<h1>busy</h1>", (("Content-Type", "text/html"), ("Retry-After", "0")))], 2),
        ([error(502)], 2),
        ([Reply(fault="reset")], 2),
        ([Reply(body={"choices": []}, fault="half")], 2),
        ([Reply(429, {"error": {}}, (("Retry-After-Ms", "3"), ("Retry-After", "60")))], 2),
    ],
)
def test_passing_faults(script: list[Reply], attempts: int) -> None:
    """What may pass is tried again, and the attempts are counted."""
    reply, server = reply_of([*script, completion()])
    assert (GOOD, attempts) == (reply.text, reply.attempts)
    assert attempts == len(server.requests)


@pytest.mark.parametrize("retry_after", [1, None])
def test_waits_as_asked(retry_after: int | None) -> None:
    """Retry-After is waited for in seconds and as a date (JP34)."""
    first = error(429, retry_after=retry_after or date_in(2))
    started = time.monotonic()
    reply, _ = reply_of([first, error(429, retry_after=0), completion()])
    assert reply.attempts == 3
    assert time.monotonic() - started >= 0.9


@pytest.mark.parametrize(("retry_after", "said"), [(3600, "3.6e+03 s"), ("inf", "inf s"), (30, "30 s")])
def test_long_retry_after(retry_after: float | str, said: str) -> None:
    """A longer wait than the time limit leaves is not waited for, and the error says so."""
    problem, server = failure_of([error(429, "slow down", retry_after)], timeout=25.0)
    assert len(server.requests) == 1
    assert "HTTP 429: slow down; it asks to wait" in str(problem)
    assert said in str(problem)
    assert "judge.timeout (25 s)" in str(problem)


@pytest.mark.parametrize("header", ["soon", "nan", "Mon, 99 Foo 2015", ""])
def test_odd_retry_after(header: str) -> None:
    """A Retry-After that says nothing is as none."""
    reply, _ = reply_of([error(429, retry_after=header), completion()])
    assert reply.attempts == 2


def test_gives_up() -> None:
    """After the allowed retries the last fault is the error, with its attempts."""
    problem, server = failure_of([error(500, "broken inside", 0)], max_retries=2)
    assert str(problem) == "judge 'custom-model' failed after 3 attempts: HTTP 500: broken inside"
    assert (problem.attempts, len(server.requests)) == (3, 3)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (error(401, f"Incorrect API key: {KEY}"), "HTTP 401: Incorrect API key: ***"),
        (error(404, "no such model"), "HTTP 404: no such model"),
        (Reply(400, [{"error": {"code": 400, "message": "API key not valid"}}]), "HTTP 400: API key not valid"),
        (Reply(403, f'key "{KEY}" refused', (("Content-Type", "text/plain"),)), 'HTTP 403: key "***" refused'),
        (Reply(418, ""), "HTTP 418"),
        (html(), "the reply is not JSON: <!doctype html>"),
        (Reply(200, '{"choices": [{"mess'), "the reply is not JSON"),
        (Reply(200, ""), "the reply is not JSON"),
        (Reply(200, "", (("Content-Type", "text/plain"),)), "the reply is not JSON: empty"),
        (Reply(200, [1, 2]), "the reply is not a completion: [1, 2]"),
        (Reply(200, {"error": {"message": f"no credit for {KEY}"}}), "the reply is an error: no credit for ***"),
        (Reply(200, {"choices": []}), "the reply has no choices"),
        (Reply(200, {"choices": None}), "the reply has no choices"),
        (Reply(200, {"choices": [None]}), "the reply has no choices"),
        (Reply(200, {"choices": "abc"}), "the reply has no choices"),
        (completion(None, refusal="I will not"), "it refused: I will not"),
        (completion(None, "content_filter"), "the provider's content filter withheld the reply"),
        (completion('{"score": 0.', "length"), "the reply was cut at max_tokens (2048); raise judge.max_tokens"),
    ],
)
def test_lasting_faults(reply: Reply, said: str) -> None:
    """What will not pass is an error at once: it names the model and the cause, never the key."""
    problem, server = failure_of([reply])
    assert said in str(problem)
    assert len(server.requests) == 1


def test_tokens_of_refused_replies() -> None:
    """A reply that cannot be used was paid for all the same."""
    problem, _ = failure_of([completion("{", "length")])
    assert problem.token_usage.total_tokens == 15


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (completion(None), ""),
        (completion(""), ""),
        (completion([{"type": "text", "text": '{"score"'}, {"type": "text", "text": ": 1}"}, None]), '{"score": 1}'),
        (completion(None, tool_calls=[{"function": {"arguments": '{"score": 1}'}}]), '{"score": 1}'),
        (completion(None, tool_calls=[{"function": None}]), ""),
        (completion(f"```json\n{GOOD}\n```"), f"```json\n{GOOD}\n```"),
        (Reply(200, {"choices": [{"message": None}], "usage": "many"}), ""),
    ],
)
def test_shapes_of_content(reply: Reply, text: str) -> None:
    """Content may be missing, in parts, or the arguments of a tool; fences are the reader's task."""
    assert text == reply_of([reply])[0].text


@pytest.mark.parametrize(
    "usage", [None, {}, "12", {"prompt_tokens": "12", "completion_tokens": -3, "total_tokens": True}]
)
def test_no_usage(usage: Any) -> None:
    """Tokens that are not said, or not said in numbers, are none."""
    body = {**completion(usage=False).body, "usage": usage}
    assert reply_of([Reply(body=body)])[0].token_usage == NO_TOKENS


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("message", "left_out"),
    [
        ("Invalid parameter: 'response_format' of type 'json_schema' is not supported", "response_format"),
        ("'temperature' does not support 0.0 with this model", "temperature"),
        ("Extra inputs are not permitted: seed", "seed"),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens"),
    ],
)
def test_refused_parameter(status: int, message: str, left_out: str) -> None:
    """A parameter that the endpoint refuses is left out, of the same question and of later ones."""
    request = JudgeRequest(MESSAGES, SCHEMA, sample=1)
    with serving([error(status, message), completion()]) as server:
        first, second = asyncio.run(asked(judge_for(server), [request, request]))
    assert (first.attempts, second.attempts) == (2, 1)
    assert [left_out in request.body for request in server.requests] == [True, False, False]
    if left_out == "max_tokens":
        assert [request.body.get("max_completion_tokens") for request in server.requests] == [None, 2048, 2048]


def test_refused_parameter_at_once() -> None:
    """Calls that were under way together are all asked again."""
    refuse = Reply(400, {"error": {"message": "response_format"}}, seconds=0.1)

    async def together(judge: OpenAIJudge) -> list[JudgeReply]:
        try:
            return await asyncio.gather(*(judge.ask(REQUEST) for _ in range(4)))
        finally:
            await judge.close()

    with serving([*[refuse] * 4, completion()]) as server:
        replies = asyncio.run(together(judge_for(server)))
    assert [reply.attempts for reply in replies] == [2] * 4


def test_refused_for_good() -> None:
    """An endpoint that refuses every parameter and then the question is an error, not a loop."""
    names = "response_format seed temperature max_tokens max_completion_tokens extra_body"
    problem, server = failure_of([error(400, names)])
    assert "HTTP 400" in str(problem)
    assert len(server.requests) == 3


def test_nobody_there() -> None:
    """A port that nobody listens on is named, without secrets of the address."""
    with serving([completion()]) as server:
        url = server.url
    judge = resolve("m", JudgeSettings(base_url=url.replace("//", "//user:pw@"), max_retries=0), {})
    with pytest.raises(NoReplyError) as caught:
        asyncio.run(asked(judge))
    assert f"judge 'm' failed: no connection to {url}: " in str(caught.value)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("address", ["not a url", "ftp://127.0.0.1/v1", "http://127.0.0.1:99999/v1"])
def test_bad_address(address: str) -> None:
    """An address that is none is a clean error."""
    judge = resolve("m", JudgeSettings(base_url=address, max_retries=0), {})
    with pytest.raises(NoReplyError, match="judge 'm' failed"):
        asyncio.run(asked(judge))


# In a run


async def verdicts(judges: Judges, count: int) -> list[Any]:
    """So many questions at once; what went wrong in place of an answer."""
    try:
        return await judges.answers([QUESTION] * count)
    finally:
        await judges.close()


def judges_for(server: Server, timeout: float = 20.0, concurrency: int = 8, **values: Any) -> Judges:
    """The judges of a run against the server."""
    chosen = settings(server, timeout=timeout, **values)
    return Judges(lambda model: resolve(model, chosen, {"SECRET": KEY}), timeout=timeout, max_concurrency=concurrency)


@pytest.mark.parametrize("script", [[Reply(fault="hang")], [Reply(seconds=60)]])
def test_deadline(script: list[Reply]) -> None:
    """A hang ends at the time limit, retries included, and the error says so."""
    started = time.monotonic()
    with serving(script) as server:
        (problem,) = asyncio.run(verdicts(judges_for(server, timeout=0.3), 1))
    assert time.monotonic() - started < 10
    assert "custom-model" in str(problem)
    assert "0.3 s" in str(problem)


def test_deadline_over_retries() -> None:
    """The time limit is for all attempts together: no retry that cannot end in time is begun."""
    problem, server = failure_of([*[error(503, retry_after=0)] * 3, error(503, "busy")], timeout=4.0, max_retries=50)
    assert "HTTP 503: busy; the next attempt would wait 4 s, and judge.timeout (4 s) leaves" in str(problem)
    assert len(server.requests) == 4


def test_concurrency_limit_and_pool() -> None:
    """Calls under way stay within the limit, and connections are used again."""
    slow = Reply(body=completion().body, seconds=0.02)
    with serving([slow]) as server:
        answers = asyncio.run(verdicts(judges_for(server, concurrency=3), 12))
    assert [answer.score for answer in answers] == [0.9] * 12
    assert (len(server.requests), server.most_at_once) == (12, 3)
    assert server.connections <= 3


def test_reopened_in_another_loop() -> None:
    """After a run, closed or not, the same judges serve another run in a new event loop, without warnings."""
    with serving([completion()]) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        judges = judges_for(server)
        for _ in range(2):
            (answer,) = asyncio.run(verdicts(judges, 1))
            assert answer.score == 0.9
        judge = judge_for(server)
        for _ in range(2):
            assert [reply.text for reply in asyncio.run(asked(judge))] == [GOOD]
        gc.collect()


def test_wrong_schema_is_repaired_once() -> None:
    """A reply without a score is asked for again once, in words that say what was wrong."""
    with serving([completion('{"grade": 7}'), completion()]) as server:
        (answer,) = asyncio.run(verdicts(judges_for(server), 1))
    assert answer.score == 0.9
    assert (answer.samples[0].attempts, answer.samples[0].token_usage.total_tokens) == (2, 30)
    roles = [message["role"] for message in server.requests[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "the reply has no score" in server.requests[1].body["messages"][-1]["content"]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"])
def test_proxy_in_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment is not asked for the way to this machine."""
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    reply, _ = reply_of([completion()])
    assert reply.text == GOOD
    with serving([completion()]) as server:
        local = JudgeSettings(base_url=server.url.replace("127.0.0.1", "localhost"), max_retries=0)
        assert asyncio.run(asked(resolve("m", local, {})))[0].text == GOOD


# Who is asked


@pytest.mark.parametrize(
    ("model", "env", "name", "base_url", "key"),
    [
        ("gemini-2.5-flash", {"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}, "gemini-2.5-flash", "google", "a"),
        ("gemini-2.5-flash", {"GOOGLE_API_KEY": "b"}, "gemini-2.5-flash", "google", "b"),
        ("Gemini-2.5-Pro", {"GEMINI_API_KEY": " a\n"}, "Gemini-2.5-Pro", "google", "a"),
        ("gpt-5-mini", {"OPENAI_API_KEY": "o"}, "gpt-5-mini", "openai", "o"),
        ("o3-mini", {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://x/v1"}, "o3-mini", "http://x/v1", "o"),
        ("o1", {"OPENAI_API_KEY": "o"}, "o1", "openai", "o"),
        ("claude-sonnet-5", {"ANTHROPIC_API_KEY": "c"}, "claude-sonnet-5", "https://api.anthropic.com/v1/", "c"),
        ("anthropic/claude-x", {"ANTHROPIC_API_KEY": "c"}, "claude-x", "https://api.anthropic.com/v1/", "c"),
        ("ollama:llama3:8b", {}, "llama3:8b", "http://localhost:11434/v1", "none"),
        ("ollama:qwen", {"OLLAMA_BASE_URL": "http://box/v1"}, "qwen", "http://box/v1", "none"),
        ("vllm:meta/llama", {"VLLM_API_KEY": "v"}, "meta/llama", "http://localhost:8000/v1", "v"),
        ("llamacpp:any", {}, "any", "http://localhost:8080/v1", "none"),
        ("openai:my-tune", {"OPENAI_API_KEY": "o"}, "my-tune", "openai", "o"),
        ("my-model", {"AGENTFLOW_EVAL_BASE_URL": "http://x/v1"}, "my-model", "http://x/v1", "none"),
        ("gpt-5", {"AGENTFLOW_EVAL_BASE_URL": "http://x/v1"}, "gpt-5", "http://x/v1", "none"),
        ("openai/gpt-oss", {"AGENTFLOW_EVAL_BASE_URL": "http://x/v1"}, "openai/gpt-oss", "http://x/v1", "none"),
        ("gpt-5", {"AGENTFLOW_EVAL_API_KEY": "e", "OPENAI_API_KEY": "o"}, "gpt-5", "openai", "e"),
        (
            "azure:mini",
            {"AZURE_OPENAI_API_KEY": "z", "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"},
            "mini",
            "https://r.openai.azure.com/openai/v1",
            "z",
        ),
    ],
)
def test_resolution(model: str, env: dict[str, str], name: str, base_url: str, key: str) -> None:
    """The model's name and the environment decide who is asked, and with which key."""
    judge = resolve(model, JudgeSettings(), env)
    known = {
        "google": "https://generativelanguage.googleapis.com/v1beta/openai/",
        "openai": "https://api.openai.com/v1",
    }
    assert (name, known.get(base_url, base_url)) == (judge.model, judge.base_url)
    assert key == judge._key


def test_config_wins() -> None:
    """An address and a key name in the config win over the name and the environment."""
    chosen = JudgeSettings(base_url="http://here/v1", api_key_env="MINE")
    env = {"MINE": "m", "GEMINI_API_KEY": "g", "AGENTFLOW_EVAL_BASE_URL": "http://there/v1"}
    judge = resolve("gemini-2.5-flash", chosen, env)
    assert (judge.base_url, judge._key) == ("http://here/v1", "m")


@pytest.mark.parametrize(
    ("model", "env", "said"),
    [
        ("gemini-2.5-flash", {}, "'gemini-2.5-flash' needs a key: set GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("gpt-5", {"OPENAI_API_KEY": " "}, "'gpt-5' needs a key: set OPENAI_API_KEY"),
        ("nonexistent-model", {}, "'nonexistent-model' means no known provider; write provider:model"),
        ("ollama:", {}, "'ollama:' means no known provider"),
        ("azure:mini", {"AZURE_OPENAI_API_KEY": "z"}, "set AZURE_OPENAI_ENDPOINT"),
        ("gpt-5", {"OPENAI_API_KEY": "sk-\nabc"}, "OPENAI_API_KEY holds characters that no key has"),
    ],
)
def test_no_resolution(model: str, env: dict[str, str], said: str) -> None:
    """What is missing is named, and no key is shown."""
    with pytest.raises(JudgeError) as caught:
        resolve(model, JudgeSettings(), env)
    assert said in str(caught.value)
    assert "abc" not in str(caught.value)


def test_named_key_is_missing() -> None:
    """A key that the config names has to be there."""
    with pytest.raises(JudgeError, match="set MINE in the environment"):
        resolve("m", JudgeSettings(base_url="http://x/v1", api_key_env="MINE"), {"OPENAI_API_KEY": "o"})


@pytest.mark.parametrize(
    ("version", "path"),
    [
        (None, "/openai/v1/chat/completions"),
        ("2024-10-21", "/openai/deployments/mini/chat/completions?api-version=2024-10-21"),
    ],
)
def test_azure(version: str | None, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure is asked by its own path and key header, with and without a dated API version."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    with serving([completion()]) as server:
        env = {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": server.url.removesuffix("/v1")}
        if version:
            env["OPENAI_API_VERSION"] = version
        judge = resolve("azure:mini", JudgeSettings(max_retries=0), env)
        assert asyncio.run(asked(judge))[0].text == GOOD
    assert path == server.requests[0].path
    assert server.requests[0].headers["api-key"] == KEY


def test_account_at_openai() -> None:
    """OpenAI is told which organization and project pays; nobody else is."""
    env = {"OPENAI_API_KEY": KEY, "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-2"}
    with serving([completion()]) as server:
        asyncio.run(asked(resolve("gpt-5", JudgeSettings(), {**env, "OPENAI_BASE_URL": server.url})))
        asyncio.run(asked(resolve("other", JudgeSettings(), {**env, "AGENTFLOW_EVAL_BASE_URL": server.url})))
    first, second = (request.headers for request in server.requests)
    assert (first["openai-organization"], first["openai-project"]) == ("org-1", "proj-2")
    assert not [name for name in second if name.startswith("openai-")]


@pytest.mark.parametrize("query", ["", "?version=2&key=abc"])
def test_credentials_and_query_of_an_address(query: str) -> None:
    """User and password of an address are sent instead of the key, its query with every call."""
    with serving([completion()]) as server:
        address = server.url.replace("//", "//us%40er:p%3Aw@") + query
        asyncio.run(asked(resolve("m", JudgeSettings(base_url=address), {})))
    assert server.requests[0].path == f"/v1/chat/completions{query}"
    assert server.requests[0].headers["authorization"] == "Basic dXNAZXI6cDp3"


def test_redirects_are_not_followed() -> None:
    """A key is for one address only; the error names the new one, without secrets."""
    moved = Reply(308, "", (("Location", "https://elsewhere.example/v2?secret=1"),))
    problem, server = failure_of([moved])
    assert "HTTP 308: it has moved to https://elsewhere.example/v2; set its address to that" in str(problem)
    assert "secret" not in str(problem)
    assert len(server.requests) == 1


def test_nested_beyond_reason() -> None:
    """A body that no parser reads is an error like any other."""
    problem, _ = failure_of([Reply(200, "[" * 100_000)])
    assert "the reply is not JSON: [[[" in str(problem)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
def test_proxy_for_other_machines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy of the environment is asked for the way to another machine, unless NO_PROXY names that one."""
    for other in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(other, raising=False)
    away = JudgeSettings(base_url="http://models.invalid/v1", max_retries=0)
    with serving([completion()]) as proxy:
        monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        assert asyncio.run(asked(resolve("m", away, {})))[0].text == GOOD
        monkeypatch.setenv("NO_PROXY", "models.invalid")
        with pytest.raises(NoReplyError, match=r"no connection to http://models\.invalid/v1"):
            asyncio.run(asked(resolve("m", away, {})))
    assert proxy.requests[0].path == "http://models.invalid/v1/chat/completions"


def test_provider_from_env() -> None:
    """A judge from three variables, only when it is switched on."""
    with serving([completion()]) as server:
        env = {"MY_LIVE_EVAL": "1", "MY_BASE_URL": server.url, "MY_MODEL": "m", "MY_API_KEY": KEY}
        judge = provider_from_env("MY", env)
        assert judge is not None
        assert asyncio.run(asked(judge))[0].text == GOOD
        keyless = provider_from_env("MY", {**env, "MY_API_KEY": ""})
        assert keyless is not None
    assert None is provider_from_env("MY", {**env, "MY_LIVE_EVAL": "true"})
    assert f"Bearer {KEY}" == server.requests[0].headers["authorization"]


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "MY_BASE_URL, MY_MODEL required for live evals"),
        ({"MY_MODEL": "m"}, "MY_BASE_URL required for live evals"),
        ({"MY_BASE_URL": "http://x/v1", "MY_MODEL": ""}, "MY_MODEL required for live evals"),
    ],
)
def test_provider_from_env_errors(env: dict[str, str], said: str) -> None:
    """Every missing variable is named, as a ValueError."""
    with pytest.raises(UsageError) as caught:
        provider_from_env("MY", {"MY_LIVE_EVAL": "1", **env})
    assert said == str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the client library the error says what to install; in a run it is the judge's error."""
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    chosen = JudgeSettings(base_url="http://127.0.0.1:9/v1")
    with pytest.raises(MissingExtraError, match=r"pip install 'agentflow-eval\[judge\]'"):
        resolve("m", chosen, {})
    (problem,) = asyncio.run(verdicts(Judges(lambda model: resolve(model, chosen, {})), 1))
    assert isinstance(problem, JudgeError)
    assert "agentflow-eval[judge]" in str(problem)


@pytest.mark.parametrize("model", ["gpt-4o-mini", "openai:gpt-4o-mini", "claude-sonnet", "somebody/model"])
def test_keys_stay_with_their_providers(model: str) -> None:
    """An address in a config does not get a provider's key; the variable it names, or ours, is read."""
    keys = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-anthropic", "MINE": "sk-mine"}
    elsewhere = JudgeSettings(base_url="https://models.example/v1")
    assert resolve(model, elsewhere, keys)._key == "none"
    assert resolve(model, elsewhere, keys | {"AGENTFLOW_EVAL_API_KEY": "sk-ours"})._key == "sk-ours"
    named = JudgeSettings(base_url="https://models.example/v1", api_key_env="MINE")
    assert resolve(model, named, keys)._key == "sk-mine"
