"""What traces are sent to and pass through: a collector that speaks OTLP over HTTP, and a proxy that notes headers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

WAIT_SECONDS = 20.0


@dataclass
class Collector:
    """Keeps what it is sent.

    Attributes:
        url: its address.
        bodies: what came, as it came.
    """

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        """All spans that came so far."""
        return [
            span
            for body in list(self.bodies)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, str]:
        """What the sender says of itself."""
        sent = ExportTraceServiceRequest.FromString(self.bodies[0]).resource_spans[0].resource
        return {attribute.key: attribute.value.string_value for attribute in sent.attributes}

    def wait_for(self, wanted: Callable[[list[Span]], bool]) -> list[Span]:
        """All spans, once they are as wanted."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not wanted(self.spans):
            assert time.monotonic() < deadline, [span.name for span in self.spans]
            time.sleep(0.05)
        return self.spans


def attributes(span: Span) -> dict[str, str | int]:
    """A span's attributes."""
    return {attribute.key: attribute.value.string_value or attribute.value.int_value for attribute in span.attributes}


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector, for a while."""
    collector = Collector()

    class Receiver(_Quiet):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            collector.bodies.append(self.body())
            self.answer(200, b"")

    with _serving(Receiver) as collector.url:
        yield collector


@contextmanager
def noting(target: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A proxy before a server: its address, and the headers of each request, with names in lower case."""
    noted: list[dict[str, str]] = []

    with httpx.Client(base_url=target, timeout=30) as client:

        class Forwarder(_Quiet):
            def _forward(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                noted.append(headers)
                kept = {"content-type": headers["content-type"]} if "content-type" in headers else {}
                answer = client.request(self.command, self.path, content=self.body(), headers=kept)
                self.answer(answer.status_code, answer.content)

            do_GET = do_POST = do_PUT = do_DELETE = _forward  # noqa: N815  # what the base class calls

        with _serving(Forwarder) as url:
            yield url, noted
