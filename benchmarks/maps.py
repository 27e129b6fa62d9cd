"""Times of maps of collections, of embedded Chroma and of a Chroma server.

    python -m benchmarks.maps --folder DIR --documents 10000 100000 200000    # filled on the first run

Each number of documents is a collection of clustered embeddings of 384. A map is measured as its caller sees it, after
a change of the collection, so that none is cached. Meanwhile another caller queries the collection, one after another.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import numpy as np

from tests.support.servers import Served, running, start_chroma, start_service

DIMENSION: Final = 384
CLUSTERS: Final = 50
BATCH: Final = 2000
MAPS: Final[dict[str, dict[str, object]]] = {
    "2,000 points": {"points": 2000},
    "2,000 points, half of the documents, a field": {"points": 2000, "where": {"even": True}, "color": "cluster"},
    "10,000 points": {"points": 10_000},
}
INDEX: Final = {"ef_construction": 10, "max_neighbors": 2}
"""A small index, which is filled fast. Chroma reads embeddings without it."""


def lines(count: int) -> Iterator[bytes]:
    """Documents as the lines of a stream."""
    random = np.random.default_rng(count)
    centres = random.standard_normal((CLUSTERS, DIMENSION))
    for first in range(0, count, BATCH):
        clusters = random.integers(0, CLUSTERS, min(BATCH, count - first))
        rows = (centres[clusters] + random.standard_normal((len(clusters), DIMENSION))).astype("<f4")
        for index, (cluster, row) in enumerate(zip(clusters.tolist(), rows, strict=True), first):
            document = {
                "id": f"d{index}",
                "text": f"Document {index}.",
                "embedding": row.round(4).tolist(),
                "metadata": {"cluster": f"c{cluster}", "even": index % 2 == 0},
            }
            yield json.dumps(document).encode() + b"\n"


def fill(http: httpx.Client, count: int) -> str:
    """A collection of a number of documents, filled unless it exists."""
    name = f"maps-{count}"
    if http.get(f"/collections/{name}").status_code == httpx.codes.OK:
        return name
    http.post("/collections", json={"name": name, "hnsw": INDEX}).raise_for_status()
    path = f"/collections/{name}/documents/stream"
    with http.stream("POST", path, content=lines(count), headers={"Content-Type": "application/x-ndjson"}) as response:
        last = [json.loads(line) for line in response.iter_lines()][-1]
    if http.get(f"/collections/{name}").json()["count"] != count:
        raise RuntimeError(last)
    return name


@contextmanager
def querying(url: str, name: str) -> Iterator[list[float]]:
    """Query a collection until the end of the block; the times in seconds."""
    times: list[float] = []
    ends = threading.Event()
    body = {"query_embedding": [1.0] * DIMENSION, "top_k": 5}

    def query() -> None:
        with httpx.Client(base_url=url, timeout=120) as http:
            while not ends.is_set():
                started = time.perf_counter()
                http.post(f"/collections/{name}/query", json=body).raise_for_status()
                times.append(time.perf_counter() - started)

    thread = threading.Thread(target=query)
    thread.start()
    try:
        yield times
    finally:
        ends.set()
        thread.join()


def measure(served: Served, kind: str, count: int, repeats: int) -> None:
    """Print the times of the maps of one collection."""
    with httpx.Client(base_url=served.url, timeout=600) as http:
        name = fill(http, count)
        for title, body in MAPS.items():
            times: list[float] = []
            waits: list[float] = []
            size = 0
            for number in range(repeats):
                changed = {"documents": [{"id": "d0", "metadata": {"run": number}}], "mode": "merge"}
                http.patch(f"/collections/{name}/documents", json=changed).raise_for_status()
                with querying(served.url, name) as queries:
                    time.sleep(0.2)
                    before = len(queries)
                    started = time.perf_counter()
                    response = http.post(f"/collections/{name}/map", json=body).raise_for_status()
                    times.append(time.perf_counter() - started)
                    size = len(response.content)
                waits += queries[before:]
            started = time.perf_counter()
            http.post(f"/collections/{name}/map", json=body).raise_for_status()
            cached = time.perf_counter() - started
            print(
                f"| {kind} | {count:,} | {title} | {statistics.median(times):.2f} s | {cached * 1000:.0f} ms | "
                f"{statistics.median(waits) * 1000:.0f} / {max(waits) * 1000:.0f} ms | "
                f"{size / 1e6:.1f} MB | load {os.getloadavg()[0]:.1f} |",
                flush=True,
            )


def main() -> None:
    """Fill and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000, 200_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=["embedded", "server"])
    options = parser.parse_args()
    environ = {"RAGSTORE_REQUEST_TIMEOUT_SECONDS": "600", "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "120"}
    for kind in options.kinds:
        folder = options.folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "embedded":
            with running(start_service(folder, environ)) as served:
                for count in options.documents:
                    measure(served, kind, count, options.repeats)
            continue
        with (
            running(start_chroma(folder)) as chroma,
            running(start_service(folder, {**environ, "RAGSTORE_CHROMA_URL": chroma.url})) as served,
        ):
            for count in options.documents:
                measure(served, kind, count, options.repeats)


if __name__ == "__main__":
    main()
