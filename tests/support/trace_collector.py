"""A trace collector that receives OTLP over HTTP, and a proxy that records headers."""

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
class TraceCollector:
    """Keeps the traces that it receives.

    Attributes:
        url: its address.
        bodies: the bodies of the requests so far.
    """

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        """All spans so far."""
        return [
            span
            for body in list(self.bodies)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, str]:
        """The resource attributes of the sender."""
        sent = ExportTraceServiceRequest.FromString(self.bodies[0]).resource_spans[0].resource
        return {attribute.key: attribute.value.string_value for attribute in sent.attributes}

    def wait_for(self, condition: Callable[[list[Span]], bool]) -> list[Span]:
        """Wait until the spans meet a condition, and return them."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition(self.spans):
            assert time.monotonic() < deadline, [span.name for span in self.spans]
            time.sleep(0.05)
        return self.spans


def attributes(span: Span) -> dict[str, str | int]:
    """A span's attributes."""
    return {attribute.key: attribute.value.string_value or attribute.value.int_value for attribute in span.attributes}


@contextmanager
def _server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def respond(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


@contextmanager
def trace_collector() -> Iterator[TraceCollector]:
    """Run a collector while the block runs."""
    collector = TraceCollector()

    class Receiver(_QuietHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            collector.bodies.append(self.body())
            self.respond(200, b"")

    with _server(Receiver) as collector.url:
        yield collector


@contextmanager
def header_recorder(target: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A proxy in front of a server: its URL, and the headers of each request, with names in lower case."""
    recorded: list[dict[str, str]] = []

    with httpx.Client(base_url=target, timeout=30) as client:

        class Forwarder(_QuietHandler):
            def _forward(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                recorded.append(headers)
                forwarded = {"content-type": headers["content-type"]} if "content-type" in headers else {}
                response = client.request(self.command, self.path, content=self.body(), headers=forwarded)
                self.respond(response.status_code, response.content)

            do_GET = do_POST = do_PUT = do_DELETE = _forward  # noqa: N815  # names that the base class calls

        with _server(Forwarder) as url:
            yield url, recorded
