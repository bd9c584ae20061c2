"""Model name -> judge over the network: any OpenAI-compatible chat completions API."""

from __future__ import annotations

import asyncio
import base64
import email.utils
import ipaddress
import json
import os
import re
import ssl
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, unquote, urlsplit

from agentflow_eval.config import JudgeSettings
from agentflow_eval.errors import JudgeError, MissingExtraError, UsageError, exception_text
from agentflow_eval.judge.client import JudgeReply, JudgeRequest, NoReplyError
from agentflow_eval.result import NO_TOKENS, TokenUsage

if TYPE_CHECKING:
    import aiohttp

_NO_KEY = "none"
_LONGEST_DETAIL = 300
_LONGEST_PAUSE = 8.0
_OPTIONAL = ("response_format", "seed", "temperature", "max_tokens", "max_completion_tokens", "extra_body")
"""Parameters that some endpoints refuse; the question can be asked without them."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is reached.

    Attributes:
        provider: Its name, as in ``provider:model``.
        prefixes: Beginnings of model names that mean this provider.
        base_url: None where each user has an address of their own.
        key_names: Environment variables that may hold the key, the first that is set wins.
        url_names: Environment variables that may hold another address.
        needs_key: Whether it refuses calls without a key.
    """

    provider: str
    prefixes: tuple[str, ...] = ()
    base_url: str | None = None
    key_names: tuple[str, ...] = ()
    url_names: tuple[str, ...] = ()
    needs_key: bool = True


ENDPOINTS = (
    Endpoint(
        "gemini",
        ("gemini-", "gemma-"),
        "https://generativelanguage.googleapis.com/v1beta/openai/",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    Endpoint(
        "openai",
        ("gpt-", "o1", "o3", "o4", "chatgpt-"),
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL",),
    ),
    Endpoint("anthropic", ("claude-",), "https://api.anthropic.com/v1/", ("ANTHROPIC_API_KEY",)),
    Endpoint("azure", (), None, ("AZURE_OPENAI_API_KEY",), ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL")),
    Endpoint("ollama", (), "http://localhost:11434/v1", ("OLLAMA_API_KEY",), ("OLLAMA_BASE_URL",), needs_key=False),
    Endpoint("vllm", (), "http://localhost:8000/v1", ("VLLM_API_KEY",), ("VLLM_BASE_URL",), needs_key=False),
    Endpoint("llamacpp", (), "http://localhost:8080/v1", (), ("LLAMACPP_BASE_URL",), needs_key=False),
)
_ANY = Endpoint("custom", needs_key=False)


def resolve(model: str, settings: JudgeSettings, environment: Mapping[str, str] | None = None) -> OpenAIJudge:
    """The judge of a model name: ``provider:model``, or a name with a known beginning.

    An address in the settings, or in ``AGENTFLOW_EVAL_BASE_URL``, wins over what the name says.

    Raises:
        JudgeError: The name means no known provider, or its key is not set; the message says what to set.
        MissingExtraError: The extra ``judge`` is not installed.
    """
    env = os.environ if environment is None else environment
    base_url = settings.base_url or env.get("AGENTFLOW_EVAL_BASE_URL") or None
    endpoint, name = _endpoint(model, ":/" if base_url is None else ":")
    if endpoint is None and base_url is None:
        known = ", ".join(f"{e.provider}:..." for e in ENDPOINTS)
        raise JudgeError(
            f"judge model {model!r} means no known provider; write provider:model ({known}), or set judge.base_url in "
            "the config"
        )
    endpoint = endpoint or _ANY
    if base_url is None:
        base_url = next((env[key] for key in endpoint.url_names if env.get(key)), endpoint.base_url)
    if base_url is None:
        raise JudgeError(f"judge model {model!r}: set {endpoint.url_names[0]} to the address of your resource")
    key = _key(model, endpoint, settings, env)
    if endpoint.provider == "azure":
        return _azure(name, base_url, key, settings, env.get("OPENAI_API_VERSION"))
    return OpenAIJudge(name, base_url=base_url, api_key=key, settings=settings, headers=_account(endpoint, env))


def _azure(name: str, address: str, key: str, settings: JudgeSettings, version: str | None) -> OpenAIJudge:
    """A deployment by the dated API when ``OPENAI_API_VERSION`` names one, else by the one without dates."""
    address, headers = address.rstrip("/"), {"api-key": key}
    if version is not None and not address.endswith("/v1"):
        base = address if "/openai" in urlsplit(address).path else f"{address}/openai"
        base = f"{base}/deployments/{quote(name, safe='')}?api-version={quote(version)}"
    else:
        base = address if address.endswith("/v1") else f"{address.removesuffix('/openai')}/openai/v1"
    return OpenAIJudge(name, base_url=base, api_key=key, settings=settings, headers=headers)


def _account(endpoint: Endpoint, env: Mapping[str, str]) -> dict[str, str]:
    """Who pays at OpenAI, where a key is for several organizations or projects."""
    if endpoint.provider != "openai":
        return {}
    names = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    return {header: _clean_key(name, env[name]) for header, name in names.items() if env.get(name)}


def _endpoint(model: str, separators: str) -> tuple[Endpoint | None, str]:
    """The endpoint that a name means, and what it calls the model; many servers have a ``/`` in their models' names."""
    for separator in separators:
        provider, found, name = model.partition(separator)
        by_name = next((e for e in ENDPOINTS if found and e.provider == provider.lower()), None)
        if by_name is not None and name:
            return by_name, name
    lowered = model.lower()
    return next((e for e in ENDPOINTS if e.prefixes and lowered.startswith(e.prefixes)), None), model


def _key(model: str, endpoint: Endpoint, settings: JudgeSettings, env: Mapping[str, str]) -> str:
    names = (settings.api_key_env,) if settings.api_key_env else ("AGENTFLOW_EVAL_API_KEY", *endpoint.key_names)
    if settings.api_key_env is None and _is_elsewhere(settings.base_url, endpoint):
        names = ("AGENTFLOW_EVAL_API_KEY",)  # a provider's key is not for whatever address a config names
    name = next((name for name in names if env.get(name, "").strip()), None)
    if name is not None:
        return _clean_key(name, env[name])
    given = settings.base_url or env.get("AGENTFLOW_EVAL_BASE_URL")
    if settings.api_key_env or (endpoint.needs_key and not given):
        wanted = settings.api_key_env or " or ".join(endpoint.key_names)
        raise JudgeError(f"judge model {model!r} needs a key: set {wanted} in the environment")
    return _NO_KEY


def _is_elsewhere(address: str | None, endpoint: Endpoint) -> bool:
    """Whether a config's address is not the provider's own; an Azure resource always is the user's."""
    if address is None or endpoint.provider == "azure":
        return False
    return urlsplit(address).hostname != urlsplit(endpoint.base_url or "").hostname


def _clean_key(name: str, value: str) -> str:
    """The key without the line end that files leave behind; what no header can carry would end up in a message."""
    key = value.strip()
    if not (key.isascii() and key.isprintable()):
        raise JudgeError(f"{name} holds characters that no key has; set it to the key alone")
    return key


def provider_from_env(prefix: str, environment: Mapping[str, str] | None = None) -> OpenAIJudge | None:
    """A judge from ``<PREFIX>_BASE_URL``, ``<PREFIX>_MODEL`` and ``<PREFIX>_API_KEY`` (optional).

    Returns:
        None unless ``<PREFIX>_LIVE_EVAL`` is ``1``.

    Raises:
        UsageError: It is, and the address or the model is missing; the message names every missing variable.
    """
    env = os.environ if environment is None else environment
    if env.get(f"{prefix}_LIVE_EVAL") != "1":
        return None
    missing = [name for name in (f"{prefix}_BASE_URL", f"{prefix}_MODEL") if not env.get(name)]
    if missing:
        raise UsageError(f"{', '.join(missing)} required for live evals")
    return OpenAIJudge(
        env[f"{prefix}_MODEL"],
        base_url=env[f"{prefix}_BASE_URL"],
        api_key=_clean_key(f"{prefix}_API_KEY", env.get(f"{prefix}_API_KEY", "")) or _NO_KEY,
        settings=JudgeSettings(),
    )


@dataclass(frozen=True, slots=True)
class _Received:
    """What an endpoint answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def payload(self) -> object:
        """The body as parsed JSON, or as text."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return self.body.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why there is no completion.

    Attributes:
        problem: What happened.
        may_pass: Whether the same call may go well later.
        pause: Seconds that the provider asks to wait; None when it does not say.
    """

    problem: str
    may_pass: bool
    pause: float | None = None


class OpenAIJudge:
    """A judge behind an OpenAI-compatible chat completions API.

    Structured output is asked for and never relied on: an endpoint that refuses it is asked without, and so for other
    parameters that are no part of the question. Connections are opened when needed, also after `close`.

    Args:
        model: The name that the endpoint knows.
        base_url: Its address, without ``/chat/completions``; a query in it is sent with every call.
        api_key: The key; never part of a message.
        settings: Limits and parameters.
        headers: Sent with every call.

    Raises:
        MissingExtraError: The extra ``judge`` is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str,
        settings: JudgeSettings,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            import aiohttp
        except ImportError as exc:
            raise MissingExtraError("judges over the network need: pip install 'agentflow-eval[judge]'") from exc
        self.model = model
        self.base_url = base_url
        self._aiohttp = aiohttp
        self._key = api_key
        self._settings = settings
        self._url, authorization = _address_and_authorization(base_url, api_key)
        self._headers = {"Content-Type": "application/json", "Authorization": authorization, **(headers or {})}
        self._refused: set[str] = set()
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _connections(self) -> aiohttp.ClientSession:
        """The connections of the running event loop, since they belong to the loop that opened them."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            http = self._aiohttp
            self._session, self._loop = (
                http.ClientSession(
                    connector=http.TCPConnector(limit=0, ssl=_tls()),  # the judges' limit is the one that counts
                    timeout=http.ClientTimeout(total=self._settings.timeout),
                    headers=self._headers,
                    cookie_jar=http.DummyCookieJar(),
                    proxy=_proxy(self._url),
                ),
                loop,
            )
        return self._session

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The model's reply, after retries where the fault may pass.

        Raises:
            NoReplyError: There is no reply; the message names the model and what happened, never the key.
        """
        started, attempts = time.monotonic(), 0
        while True:
            attempts += 1
            body = self._body(request)
            answer = await self._post(body)
            if isinstance(answer, _Received):
                if answer.status < 300:
                    return self._reply(answer.payload, attempts)
                if self._asks_without(answer, body):
                    continue
                answer = _fault(answer)
            await self._wait(answer, attempts, started)

    async def _post(self, body: Mapping[str, Any]) -> _Received | _Fault:
        """What the endpoint answers, or why it does not; no redirect is followed, for a key is for one address only."""
        try:
            async with self._connections().post(
                self._url, data=json.dumps(body).encode(), allow_redirects=False
            ) as response:
                return _Received(response.status, response.headers, await response.read())
        except Exception as exc:  # a bad address may raise anything
            network = (OSError, TimeoutError, self._aiohttp.ClientError)
            passing = isinstance(exc, network) and not isinstance(exc, self._aiohttp.InvalidURL)
            return _Fault(self._problem(exc), passing)

    def _problem(self, exc: BaseException) -> str:
        """What kept a call from its answer."""
        if isinstance(exc, TimeoutError):
            return f"no answer within {self._settings.timeout:g} s"
        return f"no connection to {_shown_address(self.base_url)}: {exception_text(exc.__cause__ or exc)}"

    def _body(self, request: JudgeRequest) -> dict[str, Any]:
        settings = self._settings
        schema = {key: value for key, value in request.schema.items() if key != "example"}
        body = {
            "model": self.model,
            "messages": list(request.messages),
            "temperature": settings.temperature if request.temperature is None else request.temperature,
            "max_tokens": settings.max_tokens,
            "seed": request.sample or None,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "schema": schema, "strict": True},
            },
        }
        if "max_tokens" in self._refused:
            body["max_completion_tokens"] = settings.max_tokens
        if request.thinking_budget is not None and self.model.lower().startswith("gemini-"):
            body["extra_body"] = {"google": {"thinking_config": {"thinking_budget": request.thinking_budget}}}
        return {key: value for key, value in body.items() if value is not None and key not in self._refused}

    def _asks_without(self, answer: _Received, body: Mapping[str, Any]) -> bool:
        """Whether the endpoint named parameters of ``body`` that it does not take; they are left out from now on."""
        if answer.status not in (400, 422):
            return False
        said = answer.body.decode(errors="replace")
        named = {name for name in _OPTIONAL if name in body and re.search(rf"\b{name}\b", said)}
        self._refused |= named
        return bool(named)

    async def _wait(self, fault: _Fault, attempts: int, started: float) -> None:
        """Waits before a retry, or gives up."""
        if not fault.may_pass or attempts > self._settings.max_retries:
            self._give_up(fault.problem, attempts)
        pause = min(_LONGEST_PAUSE, 0.5 * 2 ** (attempts - 1)) if fault.pause is None else fault.pause
        limit = self._settings.timeout
        left = limit - (time.monotonic() - started)
        if pause >= left:
            who = "the next attempt would wait" if fault.pause is None else "it asks to wait"
            more = f"{who} {pause:.3g} s, and judge.timeout ({limit:g} s) leaves {max(left, 0):.3g} s"
            self._give_up(f"{fault.problem}; {more}", attempts)
        await asyncio.sleep(pause)

    def _reply(self, payload: object, attempts: int) -> JudgeReply:
        if not isinstance(payload, Mapping):
            kind = "is not JSON" if isinstance(payload, str) else "is not a completion"
            self._unusable(f"the reply {kind}: {str(payload).strip() or 'empty'}", attempts)
        tokens = _usage(payload.get("usage"))
        if payload.get("error"):
            self._unusable(f"the reply is an error: {_message_of(payload)}", attempts, tokens)
        choices = payload.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping):
            self._unusable(f"the reply has no choices: {payload}", attempts, tokens)
        message = choice.get("message")
        message = message if isinstance(message, Mapping) else {}
        if message.get("refusal"):
            self._unusable(f"it refused: {message['refusal']}", attempts, tokens)
        if choice.get("finish_reason") == "content_filter":
            self._unusable("the provider's content filter withheld the reply", attempts, tokens)
        if choice.get("finish_reason") == "length":
            limit = self._settings.max_tokens
            self._unusable(f"the reply was cut at max_tokens ({limit}); raise judge.max_tokens", attempts, tokens)
        return JudgeReply(_content(message), tokens, attempts, str(payload.get("model") or ""))

    def _unusable(self, problem: str, attempts: int, tokens: TokenUsage = NO_TOKENS) -> NoReturn:
        raise NoReplyError(f"judge {self.model!r}: {self._hidden(problem)}", attempts, tokens)

    def _give_up(self, problem: str, attempts: int) -> NoReturn:
        tries = f" after {attempts} attempts" if attempts > 1 else ""
        raise NoReplyError(f"judge {self.model!r} failed{tries}: {self._hidden(problem)}", attempts)

    def _hidden(self, text: str) -> str:
        """``text`` cut short and without the key."""
        clean = text.replace(self._key, "***") if self._key != _NO_KEY else text
        return clean if len(clean) <= _LONGEST_DETAIL else f"{clean[:_LONGEST_DETAIL]}..."

    async def close(self) -> None:
        """Closes the connections; what is asked later opens new ones."""
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()


def _fault(answer: _Received) -> _Fault:
    """What is wrong, with the provider's own words where there are some."""
    status, said = answer.status, _message_of(answer.payload)
    moved = answer.headers.get("location") if 300 <= status < 400 else None
    if moved:
        said = f"it has moved to {_shown_address(moved)}; set its address to that"
    passing = status in (408, 409, 429) or status >= 500
    return _Fault(f"HTTP {status}: {said}" if said else f"HTTP {status}", passing, _retry_after(answer.headers))


def _address_and_authorization(base_url: str, key: str) -> tuple[str, str]:
    """Where completions are asked for, and the header that says who asks: user and password of the address win."""
    parts = urlsplit(base_url)
    credentials, found, host = parts.netloc.rpartition("@")
    url = parts._replace(netloc=host, path=f"{parts.path.rstrip('/')}/chat/completions").geturl()
    if not found:
        return url, f"Bearer {key}"
    return url, f"Basic {base64.b64encode(unquote(credentials).encode()).decode()}"


def _proxy(address: str) -> str | None:
    """The proxy that the environment names for an address; no proxy knows this machine."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if _is_local(address) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


@cache
def _tls() -> ssl.SSLContext:
    """The system's certificates and those that browsers trust; loading them takes longer than a call nearby."""
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


@cache
def _is_local(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _shown_address(address: str) -> str:
    """An address without user, password and query, which may hold secrets."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _message_of(body: object) -> str:
    """What an error body says: an object, Gemini's list of one, or text."""
    if isinstance(body, list) and body:
        body = body[0]
    for key in ("error", "message"):
        if isinstance(body, Mapping):
            body = body.get(key, body)
    return "" if body is None else str(body).strip()


def _content(message: Mapping[str, Any]) -> str:
    """The text of a message: as it is, in parts, or as the arguments of a function that was called instead."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    if content:
        return str(content)
    calls = message.get("tool_calls")
    called = calls[0].get("function") if isinstance(calls, list) and calls and isinstance(calls[0], Mapping) else None
    return str(called.get("arguments") or "") if isinstance(called, Mapping) else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait: a number or a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(value)
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if number == number else None  # NaN is no number


def _usage(usage: object) -> TokenUsage:
    if not isinstance(usage, Mapping):
        return NO_TOKENS
    return TokenUsage(
        input_tokens=_count(usage, ("prompt_tokens",)),
        output_tokens=_count(usage, ("completion_tokens",)),
        total_tokens=_count(usage, ("total_tokens",)),
        cache_read_tokens=_count(usage, ("prompt_tokens_details", "cached_tokens")),
    )


def _count(usage: Mapping[str, Any], path: Sequence[str]) -> int:
    value: object = usage
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
