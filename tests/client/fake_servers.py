"""Small real servers that the client's tests talk to: embeddings, scripted answers, and a proxy that holds up calls."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

import httpx

DIMENSIONS = {"jinaai/jina-embeddings-v2-base-de": 64, "acme/small": 32}


@dataclass
class Request:
    """What a server was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """What a server sends back."""

    status: int = 200
    body: object = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    drip: float = 0.0

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Respond = Callable[[Request], Answer]


class LocalServer:
    """An HTTP server on a free port that remembers what it was sent."""

    def __init__(self, respond: Respond) -> None:
        self.requests: list[Request] = []
        self._respond = respond
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> LocalServer:
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
        return self._respond(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = server.answer(Request(self.command, self.path, headers, body))
                time.sleep(answer.delay)
                if answer.drop:
                    self.close_connection = True
                    return
                try:
                    self._send(answer)
                except OSError:
                    self.close_connection = True  # the caller has left

            def _send(self, answer: Answer) -> None:
                content = answer.content()
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                if not answer.drip:
                    self.wfile.write(content)
                    return
                for byte in content:
                    self.wfile.write(bytes([byte]))
                    time.sleep(answer.drip)

            do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - the library's names

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


@contextmanager
def scripted(*answers: Answer) -> Iterator[LocalServer]:
    """A server that gives one answer after the other, and the last one from then on."""
    left = list(answers)
    with LocalServer(lambda _: left.pop(0) if len(left) > 1 else left[0]) as server:
        yield server


def vector_of(text: str, dimension: int = 64) -> list[float]:
    """A vector by the words of a text: texts that share words are near to one another."""
    values = [0.0] * dimension
    for word in text.lower().replace(".", " ").replace("?", " ").replace(",", " ").split():
        digest = hashlib.sha256(word.encode()).digest()
        values[digest[0] % dimension] += 1.0
        values[digest[1] % dimension] += 0.5
    norm = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / norm for value in values]


class Embeddings:
    """Speaks `POST /v1/embeddings` as TEI does, and as TEI does when something is wrong.

    `fault` is what it does instead of answering properly.
    """

    def __init__(self) -> None:
        self.fault = ""

    def respond(self, request: Request) -> Answer:
        if request.method != "POST" or request.path != "/v1/embeddings":
            return Answer(404, {"error": "not found", "type": "not_found"})
        asked = json.loads(request.body)
        vectors = [vector_of(text, DIMENSIONS.get(asked["model"], 64)) for text in asked["input"]]
        # A real server may repeat what it was sent in its error, so this one does.
        refusal = {"error": f"cannot embed {asked['input']}", "error_type": "validation"}
        match self.fault:
            case "413":
                return Answer(413, refusal)
            case "500":
                return Answer(500, refusal)
            case "busy once":
                self.fault = ""
                return Answer(429, {"error": "Model is overloaded", "error_type": "overloaded"})
            case "slow":
                return Answer(200, self._answer(asked["model"], vectors), delay=1.5)
            case "drop":
                return Answer(drop=True)
            case "no json":
                return Answer(200, b"<html>", {"content-type": "text/html"})
            case "too few":
                return Answer(200, self._answer(asked["model"], []))
            case "not finite":
                return Answer(200, self._answer(asked["model"], [[1e39] * len(vector) for vector in vectors]))
            case "base64":
                packed = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
                return Answer(200, self._answer(asked["model"], packed))
            case "backwards":
                answer = self._answer(asked["model"], vectors)
                return Answer(200, answer | {"data": answer["data"][::-1]})
            case "other model fails" if asked["model"] != "acme/small":
                return Answer(500, refusal)
        return Answer(200, self._answer(asked["model"], vectors))

    def _answer(self, model: str, vectors: list[list[float]] | list[str]) -> dict[str, list[dict[str, object]]]:
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return {"object": [], "model": [{"name": model}], "data": data, "usage": [{"prompt_tokens": 1}]}


@contextmanager
def holding_up(target: str, collection: str, seconds: float) -> Iterator[LocalServer]:
    """A proxy before a real service that holds up every call that names one collection, as a slow store would."""
    with httpx.Client(base_url=target, timeout=30) as http:

        def respond(request: Request) -> Answer:
            concerned = collection.encode() in request.path.encode() + request.body
            passed_on = {"content-type": "application/json"} if request.body else {}
            response = http.request(request.method, request.path, content=request.body, headers=passed_on)
            kind = {"content-type": response.headers.get("content-type", "application/json")}
            return Answer(response.status_code, response.content, kind, delay=seconds if concerned else 0.0)

        with LocalServer(respond) as server:
            yield server
