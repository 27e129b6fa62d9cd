"""Stream documents into a new service, and print the time and the memory that it took.

`python -m benchmarks.streaming --documents 10000 100000`: each number of documents goes to a service of its own, once
over a Chroma server and once over embedded Chroma. The documents are small (16 dimensions, 64 characters), so that many
are sent in little time and memory that a stream does not release becomes visible.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import httpx
import numpy as np

from tests.support.servers import Served, running, start_chroma, start_service

DIMENSION: Final = 16
STORES: Final = ("remote", "embedded")


def documents(count: int) -> Iterator[bytes]:
    """Small documents as lines of a stream."""
    random = np.random.default_rng(7)
    for number in range(count):
        embedding = random.standard_normal(DIMENSION).astype("<f4")
        document = {
            "id": f"doc-{number}",
            "text": f"{number:08} " + "small text " * 5,
            "embedding": base64.b64encode(embedding.tobytes()).decode(),
            "metadata": {"layer": "chunk", "page_number": number % 100},
        }
        yield json.dumps(document).encode() + b"\n"


def memory(process: int, kind: Literal["VmHWM", "VmRSS"]) -> float:
    """Memory of a process in MiB: its peak (`VmHWM`) or its current value (`VmRSS`)."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(rf"{kind}:\s+(\d+) kB", status)[0]) / 1024


def streamed(service: Served, count: int) -> str:
    """Stream documents.

    Args:
        service: the service to send to.
        count: number of documents.

    Returns:
        The cells of a table row.
    """
    with httpx.Client(base_url=service.url, timeout=600, headers={"Content-Type": "application/x-ndjson"}) as http:
        http.post("/collections", content='{"name": "stream"}', headers={"Content-Type": "application/json"})
        before = memory(service.process.pid, "VmRSS")
        started = time.perf_counter()
        response = http.post("/collections/stream/documents/stream", content=documents(count))
        seconds = time.perf_counter() - started
        *stored, end = [json.loads(line) for line in response.text.splitlines()]
        if end["status"] != "done" or http.get("/collections/stream").json()["count"] != count:
            raise SystemExit(f"not everything was stored: {end}")
    peak = memory(service.process.pid, "VmHWM")
    return f"{seconds:.1f} s | {count / seconds:,.0f}/s | {len(stored)} | {before:.0f} MiB | {peak:.0f} MiB"


def main() -> None:
    """Print the time and the memory of streams as a table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--documents", type=int, nargs="+", default=[10_000, 100_000], help="number of documents for each row"
    )
    parser.add_argument("--store", choices=STORES, nargs="+", default=STORES)
    options = parser.parse_args()
    print("| store | documents | time | rate | acknowledgements | memory before | peak |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for store in options.store:
        for count in options.documents:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                if store == "embedded":
                    with running(start_service(folder)) as service:
                        print(f"| {store} | {count:,} | {streamed(service, count)} |", flush=True)
                    continue
                with (
                    running(start_chroma(folder)) as chroma,
                    running(start_service(folder, {"RAGSTORE_CHROMA_URL": chroma.url})) as service,
                ):
                    print(f"| {store} | {count:,} | {streamed(service, count)} |", flush=True)


if __name__ == "__main__":
    main()
