"""Small HTTP servers for the client's tests: scripted responses, embeddings, ingestion, and a delaying proxy."""

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
    """A request that a server has received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Response:
    """A response, or a fault in its place.

    Attributes:
        status: the HTTP status.
        body: bytes, or a value to send as JSON.
        headers: further headers.
        delay: seconds before the response.
        drop: whether to close the connection without a response.
        drip: seconds between the bytes of the body.
    """

    status: int = 200
    body: object = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    drip: float = 0.0

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Responder = Callable[[Request], Response]


class LocalServer:
    """An HTTP server on a free port, which records its requests.

    Args:
        respond: makes the response to a request; called from several threads.
    """

    def __init__(self, respond: Responder) -> None:
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

    def respond(self, request: Request) -> Response:
        with self._lock:
            self.requests.append(request)
        return self._respond(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body are two writes. With Nagle's algorithm, the second one waits 40 ms for the client's ACK.
            disable_nagle_algorithm = True

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                response = server.respond(Request(self.command, self.path, headers, body))
                time.sleep(response.delay)
                if response.drop:
                    self.close_connection = True
                    return
                try:
                    self._send(response)
                except OSError:
                    self.close_connection = True  # the client has closed the connection

            def _send(self, response: Response) -> None:
                content = response.content()
                self.send_response(response.status)
                for name, value in {"content-type": "application/json", **response.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                if not response.drip:
                    self.wfile.write(content)
                    return
                for byte in content:
                    self.wfile.write(bytes([byte]))
                    time.sleep(response.drip)

            do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - the library's names

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        return Handler


@contextmanager
def scripted_server(*responses: Response) -> Iterator[LocalServer]:
    """A server that sends the given responses in order, and repeats the last one."""
    pending = list(responses)
    with LocalServer(lambda _: pending.pop(0) if len(pending) > 1 else pending[0]) as server:
        yield server


@contextmanager
def delaying_proxy(target: str, collection: str, seconds: float) -> Iterator[LocalServer]:
    """A proxy in front of a real service that delays every request naming one collection, as a slow store would."""
    with httpx.Client(base_url=target, timeout=30) as http:

        def respond(request: Request) -> Response:
            delayed = collection.encode() in request.path.encode() + request.body
            headers = {"content-type": "application/json"} if request.body else {}
            forwarded = http.request(request.method, request.path, content=request.body, headers=headers)
            media_type = {"content-type": forwarded.headers.get("content-type", "application/json")}
            return Response(forwarded.status_code, forwarded.content, media_type, delay=seconds if delayed else 0.0)

        with LocalServer(respond) as server:
            yield server


def vector_of(text: str, dimension: int = 64) -> list[float]:
    """A vector made of the words of a text: texts that share words are near each other."""
    values = [0.0] * dimension
    for word in text.lower().replace(".", " ").replace("?", " ").replace(",", " ").split():
        digest = hashlib.sha256(word.encode()).digest()
        values[digest[0] % dimension] += 1.0
        values[digest[1] % dimension] += 0.5
    norm = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / norm for value in values]


class FakeEmbeddings:
    """An embeddings endpoint, `POST /v1/embeddings`, with TEI's responses and errors.

    Attributes:
        fault: what to do in place of a proper response; empty for nothing.
    """

    def __init__(self) -> None:
        self.fault = ""

    def respond(self, request: Request) -> Response:
        if request.method != "POST" or request.path != "/v1/embeddings":
            return Response(404, {"error": "not found", "type": "not_found"})
        body = json.loads(request.body)
        model, texts = body["model"], body["input"]
        vectors = [vector_of(text, DIMENSIONS.get(model, 64)) for text in texts]
        # A real server may repeat what it was sent in its error, so this one does.
        error = {"error": f"cannot embed {texts}", "error_type": "validation"}
        match self.fault:
            case "413":
                return Response(413, error)
            case "500":
                return Response(500, error)
            case "busy once":
                self.fault = ""
                return Response(429, {"error": "Model is overloaded", "error_type": "overloaded"})
            case "slow":
                return Response(200, self._body(model, vectors), delay=1.5)
            case "drop":
                return Response(drop=True)
            case "no json":
                return Response(200, b"<html>", {"content-type": "text/html"})
            case "too few":
                return Response(200, self._body(model, []))
            case "not finite":
                return Response(200, self._body(model, [[1e39] * len(vector) for vector in vectors]))
            case "base64":
                packed = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
                return Response(200, self._body(model, packed))
            case "backwards":
                body = self._body(model, vectors)
                return Response(200, body | {"data": body["data"][::-1]})
            case "other model fails" if model != "acme/small":
                return Response(500, error)
        return Response(200, self._body(model, vectors))

    def _body(self, model: str, vectors: list[list[float]] | list[str]) -> dict[str, list[dict[str, object]]]:
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return {"object": [], "model": [{"name": model}], "data": data, "usage": [{"prompt_tokens": 1}]}


class FakeIngestion:
    """A service that stores documents, and records the size of its requests and how many were in flight.

    Args:
        max_documents: maximum number of documents of a request.
    """

    def __init__(self, max_documents: int = 10**9) -> None:
        self.sizes: list[int] = []
        self.ids: list[str] = []
        self.max_in_flight = 0
        self._in_flight = 0
        self._max_documents = max_documents
        self._lock = Lock()

    def respond(self, request: Request) -> Response:
        with self._lock:
            self._in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self._in_flight)
        time.sleep(0.01)
        ids = [document["id"] for document in json.loads(request.body)["documents"]]
        with self._lock:
            self._in_flight -= 1
            if len(ids) > self._max_documents:
                return Response(400, {"detail": f"At most {self._max_documents} documents"})
            self.sizes.append(len(ids))
            self.ids += ids
        return Response(200, {"status": "upserted", "collection": "abc", "count": len(ids), "ids": ids})
