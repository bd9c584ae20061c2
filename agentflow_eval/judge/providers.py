"""Model name -> judge over the network: any OpenAI-compatible API, by the `openai` client."""

from __future__ import annotations

import asyncio
import email.utils
import ipaddress
import json
import os
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from agentflow_eval.config import JudgeSettings
from agentflow_eval.errors import JudgeError, MissingExtraError, UsageError, exception_text
from agentflow_eval.judge.client import JudgeReply, JudgeRequest, NoReplyError
from agentflow_eval.result import NO_TOKENS, TokenUsage

if TYPE_CHECKING:
    import openai

_NO_KEY = "none"
_LONGEST_DETAIL = 300
_LONGEST_PAUSE = 8.0
_LOCAL_POOLS = 8
_OPTIONAL = ("response_format", "seed", "temperature", "max_tokens", "max_completion_tokens", "extra_body")
"""Parameters that some endpoints refuse; the question can be asked without them."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is reached.

    Attributes:
        provider: Its name, as in ``provider:model``.
        prefixes: Beginnings of model names that mean this provider.
        base_url: None means the client's own default.
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
    Endpoint("openai", ("gpt-", "o1", "o3", "o4", "chatgpt-"), None, ("OPENAI_API_KEY",), ("OPENAI_BASE_URL",)),
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
    if endpoint.provider == "azure" and base_url is None:
        raise JudgeError(f"judge model {model!r}: set AZURE_OPENAI_ENDPOINT to the address of your resource")
    key = _key(model, endpoint, settings, env)
    if endpoint.provider == "azure" and base_url is not None:
        return _azure(name, base_url, key, settings, env.get("OPENAI_API_VERSION"))
    return OpenAIJudge(name, base_url=base_url, api_key=key, settings=settings)


def _azure(name: str, address: str, key: str, settings: JudgeSettings, version: str | None) -> OpenAIJudge:
    """A deployment by the dated API when ``OPENAI_API_VERSION`` names one, else by the one without dates."""
    address = address.rstrip("/")
    if version is not None and not address.endswith("/v1"):
        base = address if "/openai" in urlsplit(address).path else f"{address}/openai"
        return OpenAIJudge(name, base_url=base, api_key=key, settings=settings, api_version=version)
    base = address if address.endswith("/v1") else f"{address.removesuffix('/openai')}/openai/v1"
    return OpenAIJudge(name, base_url=base, api_key=key, settings=settings, headers={"api-key": key})


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
    return urlsplit(address).hostname != urlsplit(endpoint.base_url or "https://api.openai.com").hostname


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


@dataclass(slots=True)
class _Pool:
    """A client with its connections, and how many calls it has under way."""

    client: openai.AsyncOpenAI
    under_way: int = 0


class OpenAIJudge:
    """A judge behind an OpenAI-compatible chat completions API.

    Structured output is asked for and never relied on: an endpoint that refuses it is asked without, and so for other
    parameters that are no part of the question. Connections are opened when needed, also after `close`.

    Args:
        model: The name that the endpoint knows.
        base_url: Its address; None is the client's default.
        api_key: The key; never part of a message.
        settings: Limits and parameters.
        api_version: Version of Azure's dated API.
        headers: Sent with every call.

    Raises:
        MissingExtraError: The extra ``judge`` is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        api_key: str,
        settings: JudgeSettings,
        api_version: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            import openai
        except ImportError as exc:
            raise MissingExtraError("judges over the network need: pip install 'agentflow-eval[judge]'") from exc
        self.model = model
        self.base_url = base_url
        self._openai = openai
        self._key = api_key
        self._settings = settings
        self._api_version = api_version
        self._headers = dict(headers or {})
        self._refused: set[str] = set()
        self._pools: list[_Pool] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def _pool(self) -> _Pool:
        """The pool of connections for one call: the only one, or the least busy of a server on this machine.

        A pool looks at each of its connections for every call, which is slower than a server nearby.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # connections belong to the loop that opened them
            self._pools, self._loop = [], loop
        pool = min(self._pools, key=lambda pool: pool.under_way, default=None)
        most = _LOCAL_POOLS if self.base_url is not None and _is_local(self.base_url) else 1
        if pool is None or (pool.under_way and len(self._pools) < most):
            pool = _Pool(self._new_client())
            self._pools.append(pool)
        return pool

    def _new_client(self) -> openai.AsyncOpenAI:
        options: dict[str, Any] = {
            "api_key": self._key,
            "base_url": self.base_url,
            "max_retries": 0,
            "timeout": self._settings.timeout,
            "default_headers": self._headers,
        }
        if self.base_url is not None and _is_local(self.base_url):
            # No proxy knows this machine.
            options["http_client"] = self._openai.DefaultAsyncHttpxClient(trust_env=False, verify=_tls())
        if self._api_version is not None:
            return self._openai.AsyncAzureOpenAI(api_version=self._api_version, **options)
        return self._openai.AsyncOpenAI(**options)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The model's reply, after retries where the fault may pass.

        Raises:
            NoReplyError: There is no reply; the message names the model and what happened, never the key.
        """
        started, attempts = time.monotonic(), 0
        while True:
            attempts += 1
            body = self._body(request)
            try:
                payload = await self._post(body)
            except self._openai.APIError as exc:
                if not self._asks_without(exc, body):
                    await self._wait(exc, attempts, started)
            except Exception as exc:  # the client leaks the errors of its JSON parser and of its proxies
                self._give_up(exc, attempts)
            else:
                return self._reply(payload, attempts)

    async def _post(self, body: Mapping[str, Any]) -> object:
        """What the endpoint answers, as parsed JSON or as text.

        The client's typed method takes twice the time, and gives objects that do not hold what their types say.
        """
        pool = self._pool()
        pool.under_way += 1
        try:
            return await pool.client.post("/chat/completions", body=body, cast_to=object)
        finally:
            pool.under_way -= 1

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

    def _asks_without(self, exc: openai.APIError, body: Mapping[str, Any]) -> bool:
        """Whether the endpoint named parameters of ``body`` that it does not take; they are left out from now on."""
        if getattr(exc, "status_code", None) not in (400, 422):
            return False
        said = json.dumps(exc.body, default=str) if exc.body is not None else str(exc)
        named = {name for name in _OPTIONAL if name in body and re.search(rf"\b{name}\b", said)}
        self._refused |= named
        return bool(named)

    async def _wait(self, exc: openai.APIError, attempts: int, started: float) -> None:
        """Waits before a retry, or gives up."""
        status = getattr(exc, "status_code", None)
        passing = status in (408, 409, 429) or (isinstance(status, int) and status >= 500)
        broken = isinstance(exc, self._openai.APIConnectionError)
        if not (passing or broken) or attempts > self._settings.max_retries:
            self._give_up(exc, attempts)
        asked = _retry_after(exc)
        pause = min(_LONGEST_PAUSE, 0.5 * 2 ** (attempts - 1)) if asked is None else asked
        limit = self._settings.timeout
        left = limit - (time.monotonic() - started)
        if pause >= left:
            who = "the next attempt would wait" if asked is None else "it asks to wait"
            self._give_up(
                exc, attempts, f"{who} {pause:.3g} s, and judge.timeout ({limit:g} s) leaves {max(left, 0):.3g} s"
            )
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

    def _give_up(self, exc: BaseException, attempts: int, why: str = "") -> NoReturn:
        tries = f" after {attempts} attempts" if attempts > 1 else ""
        more = f"; {why}" if why else ""
        raise NoReplyError(f"judge {self.model!r} failed{tries}: {self._detail(exc)}{more}", attempts) from None

    def _detail(self, exc: BaseException) -> str:
        """What happened, with the provider's own words where there are some."""
        status = getattr(exc, "status_code", None)
        if status:
            said = _message_of(getattr(exc, "body", None))
            return self._hidden(f"HTTP {status}: {said}" if said else f"HTTP {status}")
        if isinstance(exc, json.JSONDecodeError):
            return self._hidden(f"the reply is not JSON ({exc})")
        if isinstance(exc, self._openai.APITimeoutError):
            return f"no answer within {self._settings.timeout:g} s"
        if isinstance(exc, self._openai.APIConnectionError):
            cause = exception_text(exc.__cause__ or exc)
            return self._hidden(f"no connection to {_shown_address(self.base_url)}: {cause}")
        return self._hidden(exception_text(exc))

    def _hidden(self, text: str) -> str:
        """``text`` cut short and without the key."""
        clean = text.replace(self._key, "***") if self._key != _NO_KEY else text
        return clean if len(clean) <= _LONGEST_DETAIL else f"{clean[:_LONGEST_DETAIL]}..."

    async def close(self) -> None:
        """Closes the connections; what is asked later opens new ones."""
        pools, self._pools = self._pools, []
        if self._loop is asyncio.get_running_loop():
            for pool in pools:
                await pool.client.close()


@cache
def _tls() -> ssl.SSLContext:
    """One context for all pools, since loading the certificates takes longer than a call nearby."""
    return ssl.create_default_context()


@cache
def _is_local(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _shown_address(address: str | None) -> str:
    """An address without user, password and query, which may hold secrets."""
    if address is None:
        return "the provider"
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


def _retry_after(exc: BaseException) -> float | None:
    """Seconds that the provider asks to wait: a number or a date."""
    response = getattr(exc, "response", None)
    if response is None:
        return None
    value = response.headers.get("retry-after-ms")
    milliseconds = _number(value)
    if milliseconds is not None:
        return milliseconds / 1000
    value = response.headers.get("retry-after")
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
