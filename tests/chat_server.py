"""A chat-completions server on the loopback interface that misbehaves as its script says."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

GOOD = '{"score": 0.9, "reasoning": "fine"}'


@dataclass(frozen=True)
class Reply:
    """One answer of the server.

    Attributes:
        status: HTTP status.
        body: What is sent; an object is sent as JSON.
        headers: Sent beside the usual ones.
        fault: ``reset`` drops the connection, ``hang`` never answers, ``half`` stops in the middle of the body.
        seconds: How long the answer is held back.
    """

    status: int = 200
    body: Any = ""
    headers: tuple[tuple[str, str], ...] = ()
    fault: Literal["", "reset", "hang", "half"] = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Recorded:
    """One request as it came: path with query, headers in lower case, body, and the port it came from."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    port: int


def completion(content: Any = GOOD, finish_reason: str = "stop", usage: bool = True, **message: Any) -> Reply:
    """A well-formed completion with this content."""
    body: dict[str, Any] = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
    }
    if usage:
        details = {"cached_tokens": 4}
        body["usage"] = {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": details,
        }
    return Reply(body=body)


def error(status: int, message: str = "no", retry_after: float | str | None = None, **more: Any) -> Reply:
    """An error as OpenAI words it."""
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return Reply(status, {"error": {"message": message, "type": "error", **more}}, headers)


def date_in(seconds: float) -> str:
    """An HTTP date."""
    return formatdate(time.time() + seconds, usegmt=True)


def html(status: int = 200) -> Reply:
    """A page of a gateway."""
    page = "<!doctype html><h1>Bad gateway</h1>"
    return Reply(status, page, (("Content-Type", "text/html"),))


@dataclass
class Server:
    """A running server: its address, what it was asked, how many calls were under way at most.

    Attributes:
        url: The ``base_url``.
        script: Replies still to be given, or what makes them from a request; the last one is repeated.
        requests: What came.
        most_at_once: Calls under way at the same time.
    """

    url: str = ""
    script: list[Reply | Callable[[Recorded], Reply]] = field(default_factory=list)
    requests: list[Recorded] = field(default_factory=list)
    most_at_once: int = 0
    under_way: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def connections(self) -> int:
        """How many connections the requests came over."""
        return len({request.port for request in self.requests})

    def begin(self, request: Recorded) -> Reply:
        """Records a request and gives the next reply."""
        with self.lock:
            self.requests.append(request)
            self.under_way += 1
            self.most_at_once = max(self.most_at_once, self.under_way)
            reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return reply if isinstance(reply, Reply) else reply(request)

    def end(self) -> None:
        """One call less is under way."""
        with self.lock:
            self.under_way -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.owner.begin(Recorded(self.path, headers, body, self.client_address[1]))
        try:
            self.owner.over.wait(reply.seconds)
            self._send(reply)
        finally:
            self.owner.end()

    def _send(self, reply: Reply) -> None:
        if reply.fault == "hang":
            self.owner.over.wait()
        if reply.fault in ("hang", "reset"):
            self._reset()
            return
        text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
        data = text.encode()
        self.send_response(reply.status)
        names = {name.lower() for name, _ in reply.headers}
        if "content-type" not in names:
            self.send_header("Content-Type", "application/json")
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if reply.fault == "half" else data)
        if reply.fault == "half":
            self.close_connection = True

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, *args: Any) -> None:
        """Nothing is printed."""


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


@contextmanager
def serving(script: Sequence[Reply | Callable[[Recorded], Reply]]) -> Iterator[Server]:
    """A server that gives these replies one after the other, the last one for ever."""
    server = Server(script=list(script))
    handler = type("Handler", (_Handler,), {"owner": server})
    http = _Quiet(("127.0.0.1", 0), handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        http.shutdown()
        http.server_close()
        thread.join()
