"""Model name -> judge over the network: any OpenAI-compatible API, by the `openai` client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from agentflow_eval.config import JudgeSettings
from agentflow_eval.errors import JudgeError, MissingExtraError, UsageError, exception_text
from agentflow_eval.judge.client import JudgeReply, JudgeRequest
from agentflow_eval.result import NO_TOKENS, TokenUsage

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

_NO_KEY = "none"
_LONGEST_DETAIL = 300


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
_ANY = Endpoint("custom", key_names=("AGENTFLOW_EVAL_API_KEY", "OPENAI_API_KEY"), needs_key=False)


def resolve(model: str, settings: JudgeSettings, environment: Mapping[str, str] | None = None) -> OpenAIJudge:
    """The judge of a model name: ``provider:model``, or a name with a known beginning.

    An address in the settings, or in ``AGENTFLOW_EVAL_BASE_URL``, wins over what the name says.

    Raises:
        JudgeError: The name means no known provider, or its key is not set; the message says what to set.
        MissingExtraError: The extra ``judge`` is not installed.
    """
    env = os.environ if environment is None else environment
    endpoint, name = _endpoint(model)
    base_url = settings.base_url or env.get("AGENTFLOW_EVAL_BASE_URL")
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
    return OpenAIJudge(name, base_url=base_url, api_key=key, settings=settings)


def _endpoint(model: str) -> tuple[Endpoint | None, str]:
    provider, colon, name = model.partition(":")
    for separator in (":", "/"):
        provider, colon, name = model.partition(separator)
        by_name = next((e for e in ENDPOINTS if colon and e.provider == provider.lower()), None)
        if by_name is not None:
            return by_name, name
    lowered = model.lower()
    return next((e for e in ENDPOINTS if lowered.startswith(e.prefixes)), None) if lowered else None, model


def _key(model: str, endpoint: Endpoint, settings: JudgeSettings, env: Mapping[str, str]) -> str:
    names = (settings.api_key_env,) if settings.api_key_env else ("AGENTFLOW_EVAL_API_KEY", *endpoint.key_names)
    found = next((env[name] for name in names if env.get(name)), None)
    if found is not None:
        return found
    if settings.api_key_env or (endpoint.needs_key and settings.base_url is None):
        wanted = settings.api_key_env or " or ".join(endpoint.key_names)
        raise JudgeError(f"judge model {model!r} needs a key: set {wanted} in the environment")
    return _NO_KEY


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
        api_key=env.get(f"{prefix}_API_KEY") or _NO_KEY,
        settings=JudgeSettings(),
    )


class OpenAIJudge:
    """A judge behind an OpenAI-compatible chat completions API.

    Structured output is asked for and never relied on: an endpoint that refuses it is asked without.

    Raises:
        MissingExtraError: The extra ``judge`` is not installed.
    """

    def __init__(self, model: str, *, base_url: str | None, api_key: str, settings: JudgeSettings) -> None:
        try:
            import openai
        except ImportError as exc:
            raise MissingExtraError("judges over the network need: pip install 'agentflow-eval[judge]'") from exc
        self.model = model
        self._openai = openai
        self._key = api_key
        self._settings = settings
        self._structured = True
        self._client: openai.AsyncOpenAI = openai.AsyncOpenAI(
            api_key=api_key, base_url=base_url, max_retries=0, timeout=settings.timeout
        )

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The model's reply, after retries where the fault may pass.

        Raises:
            JudgeError: There is no reply; the message names the model and what happened, never the key.
        """
        attempts = 0
        while True:
            attempts += 1
            try:
                completion = await self._complete(request)
            except self._openai.BadRequestError as exc:
                if not self._structured or "response_format" not in self._detail(exc):
                    self._give_up(exc, attempts)
                self._structured = False
            except self._openai.APIError as exc:
                await self._wait(exc, attempts)
            except Exception as exc:  # the client leaks ValueErrors of its JSON parser and IndexErrors
                self._give_up(exc, attempts)
            else:
                return self._reply(completion, attempts)

    async def _complete(self, request: JudgeRequest) -> ChatCompletion:
        messages: list[Any] = list(request.messages)
        options: dict[str, Any] = {}
        temperature = self._settings.temperature if request.temperature is None else request.temperature
        if temperature is not None:
            options["temperature"] = temperature
        if request.thinking_budget is not None and self.model.lower().startswith("gemini-"):
            thinking = {"thinking_config": {"thinking_budget": request.thinking_budget}}
            options["extra_body"] = {"extra_body": {"google": thinking}}
        if self._settings.max_tokens is not None:
            options["max_tokens"] = self._settings.max_tokens
        if request.sample:
            options["seed"] = request.sample
        if self._structured:
            schema = {key: value for key, value in request.schema.items() if key != "example"}
            options["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "schema": schema, "strict": True},
            }
        completion: ChatCompletion = await self._client.chat.completions.create(
            model=self.model, messages=messages, **options
        )
        return completion

    async def _wait(self, exc: openai.APIError, attempts: int) -> None:
        """Waits before a retry, or gives up."""
        status = getattr(exc, "status_code", None)
        passing = status in (408, 409, 429) or (isinstance(status, int) and status >= 500)
        broken = isinstance(exc, self._openai.APIConnectionError)
        if not (passing or broken) or attempts > self._settings.max_retries:
            self._give_up(exc, attempts)
        asked = _retry_after(exc)
        if asked is not None and asked > self._settings.timeout:
            self._give_up(exc, attempts, f"it asks to wait {asked:.0f} s, longer than judge.timeout")
        await asyncio.sleep(min(8.0, 0.5 * 2 ** (attempts - 1)) if asked is None else asked)

    def _reply(self, completion: Any, attempts: int) -> JudgeReply:
        choices = getattr(completion, "choices", None)
        if not choices:
            raise JudgeError(f"judge {self.model!r}: the reply has no choices: {self._hidden(str(completion))}")
        choice = choices[0]
        message = choice.message
        refusal = getattr(message, "refusal", None)
        if refusal:
            raise JudgeError(f"judge {self.model!r} refused: {self._hidden(str(refusal))}")
        if choice.finish_reason == "content_filter":
            raise JudgeError(f"judge {self.model!r}: the provider's content filter withheld the reply")
        if choice.finish_reason == "length":
            raise JudgeError(
                f"judge {self.model!r}: the reply was cut at max_tokens ({self._settings.max_tokens}); raise "
                "judge.max_tokens"
            )
        usage = _usage(getattr(completion, "usage", None))
        return JudgeReply(message.content or "", usage, attempts, str(getattr(completion, "model", "") or ""))

    def _give_up(self, exc: BaseException, attempts: int, why: str = "") -> NoReturn:
        tries = f" after {attempts} attempts" if attempts > 1 else ""
        more = f"; {why}" if why else ""
        raise JudgeError(f"judge {self.model!r} failed{tries}: {self._detail(exc)}{more}") from None

    def _detail(self, exc: BaseException) -> str:
        """What happened, with the provider's own words where there are some."""
        body = getattr(exc, "body", None)
        if isinstance(body, list) and body:
            body = body[0]
        if isinstance(body, Mapping):
            inner = body.get("error", body)
            body = inner.get("message", inner) if isinstance(inner, Mapping) else inner
        if isinstance(exc, ValueError) and not body:
            return f"the reply is not JSON ({self._hidden(exception_text(exc))})"
        status = getattr(exc, "status_code", None)
        head = f"HTTP {status}" if status else exception_text(exc)
        said = f": {body}" if status and body else ""
        return self._hidden(f"{head}{said}")

    def _hidden(self, text: str) -> str:
        """``text`` cut short and without the key."""
        clean = text.replace(self._key, "***") if self._key != _NO_KEY else text
        return clean if len(clean) <= _LONGEST_DETAIL else f"{clean[:_LONGEST_DETAIL]}..."

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()


def _retry_after(exc: BaseException) -> float | None:
    """Seconds that the provider asks to wait: a number or a date."""
    import email.utils
    import time

    response = getattr(exc, "response", None)
    value = response.headers.get("retry-after") if response is not None else None
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _usage(usage: Any) -> TokenUsage:
    if usage is None:
        return NO_TOKENS
    details = getattr(usage, "prompt_tokens_details", None)
    return TokenUsage(
        input_tokens=getattr(usage, "prompt_tokens", 0) or 0,
        output_tokens=getattr(usage, "completion_tokens", 0) or 0,
        total_tokens=getattr(usage, "total_tokens", 0) or 0,
        cache_read_tokens=getattr(details, "cached_tokens", 0) or 0,
    )
