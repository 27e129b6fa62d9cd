"""Draws `docs/stack.svg`, the picture of `docs/architecture.md`: `python -m scripts.draw_stack`.

A test compares its layers with the stack that `ragstore.app` builds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

PICTURE: Final = Path(__file__).resolve().parents[1] / "docs/stack.svg"

ROWS: Final = (
    ("HTTP", "uvicorn, ProblemProtocol", "parses requests; cuts off clients that are too slow"),
    ("HTTP", "RequestContextMiddleware", "request id, timing, access log, audit record"),
    ("HTTP", "MetricsMiddleware", "requests by route and status, for Prometheus"),
    ("HTTP", "LimitsMiddleware", "maximum of concurrent requests, deadline, shutdown"),
    ("HTTP", "RawPathMiddleware, AllowHeaderMiddleware", "encoded slashes in paths; the Allow header"),
    ("Litestar", "AuthMiddleware", "keys, roles, rates"),
    ("Litestar", "routes", "decode once, call the store, encode the response"),
    ("stores", "ScopedStore", "hides the collections of others; protects those of the gateway"),
    ("stores", "AuditStore", "adds every write to the audit record"),
    ("stores", "QueryAgeStore", "lets writes say how long ago the last query was"),
    ("stores", "MetricsStore", "counts and times the calls of the routes"),
    ("stores", "DeadlineStore", "ends a call when the request's deadline expires"),
    ("stores", "CollectionLimitStore", "rejects collections beyond the maximum"),
    ("stores", "BatchingStore", "joins concurrent requests into batches"),
    ("stores", "FilterPlanningStore", "exact, pre-filter or post-filter for a filtered query"),
    ("stores", "IndexSamplingStore", "looks for some documents by their own embedding"),
    ("stores", "EmbeddingMemory", "finds what the index of a small collection has lost"),
    ("stores", "MapCacheStore", "makes one map at a time, and caches it until a change"),
    ("stores", "ListingCacheStore", "caches the matches of a filter for the next page"),
    ("stores", "ChromaStore", "implements the contract on top of Chroma"),
    ("backends", "ChangeRecorder", "records the documents that change while an index is rebuilt"),
    ("backends", "QuotaLayer", "keeps to Chroma's quotas; remote only"),
    ("backends", "ConsistentReadLayer", "repeats reads that a write may have torn; remote only"),
    ("backends", "CircuitBreakerLayer", "rejects calls while Chroma is unavailable"),
    ("backends", "RetryLayer", "retries the calls that may be repeated"),
    ("backends", "MetricsLayer", "times each call to Chroma"),
)
"""The layers, outermost first: group, name, purpose."""

BACKENDS: Final = (
    ("EmbeddedBackend", "a process of its own, with PersistentClient"),
    ("HttpBackend", "a Chroma server, a cluster, or Chroma Cloud"),
)

COLOURS: Final = {"HTTP": "#e3ecf7", "Litestar": "#fdeeda", "stores": "#e5f3e6", "backends": "#f3e6ef"}
WIDTH: Final = 760
ROW: Final = 30
LEFT: Final = 92
TOP: Final = 44


def drawing() -> str:
    """The picture as SVG."""
    end = TOP + ROW * len(ROWS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {end + 100}" font-family="sans-serif" '
        'font-size="13" role="img">',
        "<title>The layers between a client and Chroma</title>",
        f'<rect width="{WIDTH}" height="{end + 100}" fill="#ffffff"/>',
        _text(LEFT + 10, 22, "a client: curl, the Python client, the Node client", bold=True),
    ]
    group = ""
    for index, (kind, name, note) in enumerate(ROWS):
        y = TOP + ROW * index
        parts.append(_box(LEFT, y, WIDTH - LEFT - 12, COLOURS[kind]))
        parts += [_text(LEFT + 10, y + 19, name, bold=True), _text(LEFT + 220, y + 19, note)]
        if kind != group:
            parts.append(_text(10, y + 19, kind))
            group = kind
    half = (WIDTH - LEFT - 12 - 10) // 2
    for column, (name, note) in enumerate(BACKENDS):
        x = LEFT + column * (half + 10)
        parts.append(_box(x, end + 4, half, COLOURS["backends"], height=48))
        parts += [_text(x + 10, end + 23, name, bold=True), _text(x + 10, end + 42, note)]
    parts.append(_text(LEFT + 10, end + 80, "Chroma", bold=True))
    return "\n".join([*parts, "</svg>", ""])


def _box(x: int, y: int, width: int, colour: str, height: int = ROW - 4) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{colour}" stroke="#8899aa"/>'


def _text(x: int, y: int, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="#111111"{weight}>{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(drawing())
