"""Draws `docs/chat-trace.svg`: the trace of one chat, as a collector receives it from the gateway and from the store.

`python -m benchmarks.chat_trace`. The services, embedded Chroma, SQLite and the requests are real; the
upstream and the servers of embeddings and of the reranking model respond without work. An earlier chat has loaded the
modules and the collection.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4
from xml.sax.saxutils import escape

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragstore_client.gateway import GatewayClient, KnowledgeBase, TextDocument
from tests.support.fake_inference import embedded, reranked
from tests.support.fake_upstream import fake_upstream
from tests.support.gateways import start_gateway
from tests.support.servers import running, start_service
from tests.support.trace_collector import TraceCollector, trace_collector

PICTURE: Final = Path(__file__).resolve().parents[1] / "docs/chat-trace.svg"
CHAT: Final = "POST /v1/chat/completions"
PARENT: Final = "00f067aa0ba902b7"

WIDTH: Final = 980
LEFT: Final = 320
"""Where the bars begin; the names are before."""

RIGHT: Final = 70
ROW: Final = 20
TOP: Final = 44
COLOURS: Final = {"ragstore_gateway": "#2f7d32", "ragstore": "#1f5fa8"}


@dataclass(frozen=True)
class Part:
    """A span.

    Attributes:
        service: the service that made it.
        start: when it began, in ns.
        end: when it ended, in ns.
    """

    service: str
    name: str
    id: str
    parent: str
    start: int
    end: int


def parts(collector: TraceCollector, trace_id: str) -> list[Part]:
    """The spans of a trace that have arrived."""
    return [
        Part(
            service,
            span.name,
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
        )
        for body in list(collector.bodies)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for service in [
            next(each.value.string_value for each in resource.resource.attributes if each.key == "service.name")
        ]
        for scope in resource.scope_spans
        for span in scope.spans
        if span.trace_id.hex() == trace_id
    ]


def in_order(found: Sequence[Part], parent: str, depth: int = 0) -> Iterator[tuple[int, Part]]:
    """The spans below another one as a tree, with their depth."""
    for part in sorted((each for each in found if each.parent == parent), key=lambda each: each.start):
        yield depth, part
        yield from in_order(found, part.id, depth + 1)


def drawing(found: Sequence[Part]) -> str:
    """The picture as SVG."""
    rows = list(in_order(found, PARENT))
    root = rows[0][1]
    scale = (WIDTH - LEFT - RIGHT) / (root.end - root.start)
    height = TOP + ROW * len(rows) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12" role="img">',
        "<title>The trace of one chat, in the gateway and in the store</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    x = 10
    for service, colour in COLOURS.items():
        lines.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{x + 18}" y="24" fill="#111111">{service}</text>')
        x += 150
    for index, (depth, part) in enumerate(rows):
        y = TOP + ROW * index
        begin = LEFT + (part.start - root.start) * scale
        width = max(1.5, (part.end - part.start) * scale)
        lines += [
            f'<text x="{10 + 14 * depth}" y="{y + 14}" fill="#111111">{escape(part.name)}</text>',
            f'<rect x="{begin:.1f}" y="{y + 3}" width="{width:.1f}" height="13" rx="2" '
            f'fill="{COLOURS[part.service]}"/>',
            f'<text x="{begin + width + 4:.1f}" y="{y + 14}" fill="#555555">'
            f"{(part.end - part.start) / 1e6:.1f} ms</text>",
        ]
    return "\n".join([*lines, "</svg>", ""])


def traced_chat(folder: Path) -> list[Part]:
    """Start the services, and send two chats. Returns the spans of the second one."""
    with fake_upstream() as upstream, trace_collector() as collector:
        upstream.on("embed", embedded)
        upstream.on("rerank", reranked)
        traces = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        store_environ = {**traces, "RAGSTORE_RESERVED_PREFIXES": "none"}
        (folder / "store").mkdir()
        with running(start_service(folder / "store", store_environ)) as store:
            environ = {**traces, "RAGSTORE_URL": store.url, "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url}
            with running(start_gateway(folder, environ)) as served:
                fill(served.url, upstream.url)
                send_chat(served.url, "What is hot?")
                trace_id = send_chat(served.url, "How long does green tea brew?")
                collector.wait_for(lambda _: any(each.name == CHAT for each in parts(collector, trace_id)))
    return parts(collector, trace_id)


def send_chat(url: str, question: str) -> str:
    """Send a chat to the assistant. Returns the id of its trace."""
    trace_id = uuid4().hex
    httpx.post(
        f"{url}/v1/chat/completions",
        json={"model": "rag/teas", "messages": [{"role": "user", "content": question}]},
        headers={"traceparent": f"00-{trace_id}-{PARENT}-01"},
        timeout=60,
    ).raise_for_status()
    return trace_id


def fill(url: str, provider: str) -> None:
    """Create a base and an assistant that rewrites questions and has a reranking model.

    Args:
        url: address of the gateway.
        provider: address of the servers of embeddings and of the reranking model.
    """
    with GatewayClient(url, timeout=60) as client:
        base = KnowledgeBase(
            name="teas", min_score=0.0, embedding_provider="tei", embedding_parameters={"baseUrl": provider}
        )
        texts = [TextDocument(f"tea-{number}", f"Tea {number} brews for {number} minutes.") for number in range(100)]
        client.ingest_all(client.bases.create(base), texts).raise_for_failures()
    task = {"id": "answer", "enableWorkflowRag": True, "rerank": {"provider": "tei", "baseUrl": provider}}
    assistant = {"name": "teas", "model": "m", "workflow": ["teas"], "tasks": [task], "query": "rewrite"}
    httpx.post(f"{url}/ragstore/assistants", json=assistant, timeout=60).raise_for_status()


def main() -> None:
    """Draw the picture."""
    with tempfile.TemporaryDirectory() as name:
        found = traced_chat(Path(name))
    PICTURE.write_text(drawing(found))
    print(f"{len(found)} spans, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
