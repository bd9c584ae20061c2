"""Drives an agent behind HTTP: an OpenAI-compatible chat endpoint, or any that takes and gives JSON."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from agentflow_eval._values import as_text, shown
from agentflow_eval.adapters._target import Session, Turn
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import ENVIRONMENT_VARIABLE, EndpointResponse, HttpEndpoint
from agentflow_eval.errors import AgentError, MissingExtraError, TargetError, exception_text
from agentflow_eval.result import NO_TOKENS, TokenUsage

if TYPE_CHECKING:
    import aiohttp

_MOST_BYTES = 10_000_000
_TEXT_SHOWN = 300
_NODE = "endpoint"
"""The node that a call counts as a visit of, where the reply shows tool calls and no nodes."""


class HttpTarget:
    """An agent behind HTTP. No redirect is followed, for a key is for one address only.

    Args:
        endpoint: Where it is and how it talks.

    Raises:
        MissingExtraError: The extra ``http`` is not installed.
        TargetError: An environment variable that the endpoint names is not set.
    """

    def __init__(self, endpoint: HttpEndpoint) -> None:
        try:
            import aiohttp
            import jmespath  # noqa: F401  # templates of a JSON endpoint need it later
        except ImportError as exc:
            raise MissingExtraError("an agent behind HTTP needs: pip install 'agentflow-eval[http]'") from exc
        self._aiohttp = aiohttp
        self._endpoint = endpoint
        self._secrets: list[str] = []
        self._headers = {name: self._with_environment(value) for name, value in endpoint.headers.items()}
        if endpoint.api_key_env is not None:
            self._headers["Authorization"] = f"Bearer {self._variable(endpoint.api_key_env)}"
        self._talk: _Protocol = _ChatCompletions(endpoint) if endpoint.protocol == "openai" else _Json(endpoint)
        self._connections: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way = 0

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Sends one turn and records what the reply says."""
        reply = await self._sent(self._talk.request(turn, session))
        session.raw[turn.index] = reply
        try:
            self._talk.record(reply, session, collector)
        except AgentError as exc:
            raise AgentError(self._hidden(f"{self._address}: {exc}")) from exc

    async def release_connections(self) -> None:
        """Closes the connections, unless another case is using them; the next turn opens new ones."""
        if self._under_way and self._loop is asyncio.get_running_loop():
            return
        connections, self._connections = self._connections, None
        if connections is not None and self._loop is asyncio.get_running_loop():
            await connections.close()

    async def _sent(self, body: Mapping[str, Any]) -> Any:
        """The reply as parsed JSON."""
        endpoint, http = self._endpoint, self._aiohttp
        try:
            data = json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace")
        except (TypeError, ValueError) as exc:
            raise AgentError(f"{self._address}: the request is not JSON: {exception_text(exc)}") from exc
        connections = self._opened()
        self._under_way += 1
        try:
            async with connections.request(
                endpoint.method, self._talk.url, data=data, allow_redirects=False
            ) as response:
                status, headers, raw = response.status, response.headers, await _limited(response)
        except TimeoutError as exc:
            raise AgentError(f"{self._address}: no reply within {endpoint.timeout:g} s") from exc
        except (http.ClientError, OSError, ValueError) as exc:
            problem = exception_text(exc.__cause__ or exc)
            raise AgentError(self._hidden(f"{self._address}: no connection: {problem}")) from exc
        finally:
            self._under_way -= 1
        if status >= 300:
            moved = f" (moved to {_plain_address(headers['location'])})" if "location" in headers else ""
            raise AgentError(self._hidden(f"{self._address}: HTTP {status}{moved}: {_excerpt(raw)}"))
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as exc:
            raise AgentError(self._hidden(f"{self._address}: the reply is not JSON: {_excerpt(raw)}")) from exc

    def _opened(self) -> aiohttp.ClientSession:
        """The connections of the running event loop, since they belong to the loop that opened them."""
        loop = asyncio.get_running_loop()
        if self._connections is None or self._loop is not loop:
            http = self._aiohttp
            self._loop, self._under_way = loop, 0
            self._connections = http.ClientSession(
                connector=http.TCPConnector(limit=0),  # the run's own concurrency is the limit
                timeout=http.ClientTimeout(total=self._endpoint.timeout),
                headers={"Content-Type": "application/json", **self._headers},
                cookie_jar=http.DummyCookieJar(),  # a cookie would tie cases together
                trust_env=True,
            )
        return self._connections

    @property
    def _address(self) -> str:
        return _plain_address(self._talk.url)

    def _variable(self, name: str) -> str:
        value = os.environ.get(name, "").strip()
        if not value:
            where = _plain_address(self._endpoint.url)
            raise TargetError(f"the endpoint {where} needs the environment variable {name}, which is not set")
        self._secrets.append(value)
        return value

    def _with_environment(self, text: str) -> str:
        return ENVIRONMENT_VARIABLE.sub(lambda match: self._variable(match.group(1)), text)

    def _hidden(self, text: str) -> str:
        """``text`` without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) > _MOST_BYTES:
            raise ValueError(f"the reply has more than {_MOST_BYTES // 1_000_000} MB")
    return bytes(raw)


def _plain_address(address: str) -> str:
    """An address without user, password and query, which may hold secrets."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _excerpt(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").strip()
    return text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}..."


class _Protocol(Protocol):
    """How a kind of endpoint is asked, and what its replies mean."""

    url: str

    def request(self, turn: Turn, session: Session) -> dict[str, Any]:
        """The body of a turn's request."""

    def record(self, reply: Any, session: Session, collector: TrajectoryCollector) -> None:
        """Records a reply.

        Raises:
            AgentError: The reply does not say what it should.
        """


class _ChatCompletions:
    """The whole conversation goes out with every turn; tool calls are recorded as the reply asks for them.

    Nobody runs a tool here. An endpoint that runs its tools itself may add ``result`` or ``error`` to each of its
    ``tool_calls``.
    """

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        parts = urlsplit(endpoint.url)
        self.url = parts._replace(path=f"{parts.path.rstrip('/')}/chat/completions").geturl()

    def request(self, turn: Turn, session: Session) -> dict[str, Any]:
        endpoint = self._endpoint
        system = [{"role": "system", "content": endpoint.system_prompt}] if endpoint.system_prompt else []
        messages = [*system, *session.messages, {"role": "user", "content": turn.content.content}]
        session.memory["sent"] = messages
        return {"model": endpoint.model, "messages": messages, **endpoint.parameters}

    def record(self, reply: Any, session: Session, collector: TrajectoryCollector) -> None:
        choices = reply.get("choices") if isinstance(reply, dict) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise AgentError(f"the reply is no chat completion: it has no choices[0].message: {shown(reply)}")
        calls = [call for call in message.get("tool_calls") or () if isinstance(call, dict)]
        named = [(_function(call), call) for call in calls]
        answer = _content(message)
        collector.node(_NODE)
        collector.node_response(
            _NODE,
            input_messages=session.memory["sent"],
            response_text=answer,
            tool_call_names=[str(function.get("name", "")) for function, _ in named],
            token_usage=_usage(reply.get("usage")),
        )
        for function, call in named:
            collector.tool(
                function.get("name") or "",
                function.get("arguments"),
                result=call.get("result"),
                error=call.get("error"),
                call_id=call.get("id"),
            )
        collector.say(answer)


def _function(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    return function if isinstance(function, dict) else call


def _content(message: Mapping[str, Any]) -> str:
    """The text of a message: as it is, in parts, or why it was refused."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or message.get("refusal") or "")


def _usage(usage: Any) -> TokenUsage:
    if not isinstance(usage, dict):
        return NO_TOKENS
    return TokenUsage(
        input_tokens=_count(usage.get("prompt_tokens")), output_tokens=_count(usage.get("completion_tokens"))
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class _Json:
    """One request for a turn, made from a template; JMESPath expressions find what the reply says."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        import jmespath

        self.url = endpoint.url
        self._body = _Template(endpoint.request)
        self._response = endpoint.response or EndpointResponse(answer="answer")
        named = self._response.model_dump(exclude_none=True)
        self._found = {name: jmespath.compile(expression) for name, expression in named.items()}

    def request(self, turn: Turn, session: Session) -> dict[str, Any]:
        values = {
            "text": turn.text,
            "messages": [*session.messages, {"role": "user", "content": turn.text}],
            "session_id": session.thread_id,
            "user_id": session.user_id,
            "app_name": session.app_name,
            "state": session.state,
            "turn": turn.index + 1,
            "conversation": session.memory.get("conversation"),
        }
        body: dict[str, Any] = self._body.filled(values)
        return body

    def record(self, reply: Any, session: Session, collector: TrajectoryCollector) -> None:
        if "conversation" in self._found:
            session.memory["conversation"] = self._at("conversation", reply)
        self._record_events(reply, collector)
        failure = self._at("error", reply)
        if failure:
            raise AgentError(f"the endpoint says that the agent failed: {as_text(failure)}")
        answer = self._at("answer", reply)
        if answer is None:
            raise AgentError(f"the reply has no answer at {self._response.answer!r}: {shown(reply, _TEXT_SHOWN)}")
        collector.say(answer)

    def _record_events(self, reply: Any, collector: TrajectoryCollector) -> None:
        for name in self._listed("nodes", reply):
            collector.node(name)
        if "nodes" not in self._found and "tool_calls" in self._found:
            collector.node(_NODE)
        for call in self._listed("tool_calls", reply):
            name = self._at("tool_name", call)
            if not name:
                raise AgentError(f"a tool call has no name at {self._response.tool_name!r}: {shown(call)}")
            collector.tool(
                name,
                self._at("tool_arguments", call),
                result=self._at("tool_result", call),
                error=self._at("tool_error", call) or None,
                call_id=self._at("tool_id", call),
            )
        counts = {name: _count(self._at(name, reply)) for name in ("input_tokens", "output_tokens")}
        if any(counts.values()):
            collector.tokens(counts)

    def _at(self, name: str, value: Any) -> Any:
        """What the expression for ``name`` finds in ``value``; None when it finds nothing, or there is none."""
        import jmespath

        expression = self._found.get(name)
        try:
            return None if expression is None else expression.search(value)
        except jmespath.exceptions.JMESPathError as exc:
            raise AgentError(f"response.{name} does not fit the reply: {exception_text(exc)}: {shown(value)}") from exc

    def _listed(self, name: str, reply: Any) -> list[Any]:
        items = self._at(name, reply)
        if items is None:
            return []
        if isinstance(items, list):
            return items
        raise AgentError(f"response.{name} must find a list in the reply, and it found {shown(items)}")


class _Template:
    """A JSON value whose texts are Jinja2 templates; what they show never changes the shape of the value."""

    def __init__(self, value: Any) -> None:
        from jinja2 import StrictUndefined, TemplateSyntaxError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self._environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
        try:
            self._made = self._compiled(value)
        except TemplateSyntaxError as exc:
            raise TargetError(f"endpoint.request: {exc.message}") from exc

    def filled(self, values: Mapping[str, Any]) -> Any:
        """The value with its texts rendered.

        Raises:
            AgentError: A template cannot be rendered.
        """
        try:
            return _filled(self._made, values)
        except Exception as exc:  # a user's template may do anything that Jinja2 allows
            raise AgentError(f"endpoint.request cannot be rendered: {exception_text(exc)}") from exc

    def _compiled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._compiled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._compiled(item) for item in value]
        if not isinstance(value, str) or "{" not in value:
            return value
        inner = value.strip().removeprefix("{{").removesuffix("}}")
        if value.strip() == f"{{{{{inner}}}}}" and "}}" not in inner and "{{" not in inner:
            return self._environment.compile_expression(inner, undefined_to_none=False)
        return self._environment.from_string(value).render


def _filled(made: Any, values: Mapping[str, Any]) -> Any:
    from jinja2 import Undefined

    if isinstance(made, dict):
        return {key: _filled(item, values) for key, item in made.items()}
    if isinstance(made, list):
        return [_filled(item, values) for item in made]
    if not callable(made):
        return made
    value = made(**values)
    return str(value) if isinstance(value, Undefined) else value  # a strict one says what is missing when it is read
