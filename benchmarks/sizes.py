"""Measure the memory of the service and of Chroma, and the disk space, for a number of documents.

`.venv/bin/python -m benchmarks.sizes --store remote --dimension 768 --counts 10000 20000` prints a row for each count.
Documents are added. Then the service and Chroma are restarted and run one query, which gives the memory of a service at
rest. The peak memory while loading is reported, too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np

from benchmarks.corpus import TEXT, clustered, encoded, metadata
from tests.support.servers import Served, running, start_chroma, start_service

BATCH = 500


@contextmanager
def started(folder: Path, store: str) -> Iterator[tuple[Served, Served | None]]:
    """Start the service, and the Chroma server if the store is remote, on the data in a folder."""
    with ExitStack() as stack:
        chroma = stack.enter_context(running(start_chroma(folder))) if store == "remote" else None
        environ = {"RAGSTORE_LOG_LEVEL": "warning"} | ({"RAGSTORE_CHROMA_URL": chroma.url} if chroma else {})
        yield stack.enter_context(running(start_service(folder, environ))), chroma


def memory(pid: int, field: str) -> float:
    """Memory of one process in MiB: `VmRSS` is the current value, `VmHWM` the peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise ValueError(field)


def chroma_pid(service: Served, chroma: Served | None) -> int:
    """The process that Chroma runs in; embedded Chroma is the child of the service with the most memory."""
    if chroma is not None:
        return chroma.process.pid
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    return max((int(child) for child in children), key=lambda pid: memory(pid, "VmRSS"))


def add(url: str, rng: np.random.Generator, records: range, dimension: int) -> float:
    """Add documents in batches.

    Returns:
        The seconds that it took.
    """
    began = time.perf_counter()
    with httpx.Client(base_url=url, timeout=120) as client:
        client.post("/collections", json={"name": "sizes", "get_or_create": True}).raise_for_status()
        for start in range(records.start, records.stop, BATCH):
            batch = range(start, min(start + BATCH, records.stop))
            documents = [
                {
                    "id": f"record-{index}",
                    "text": f"{index} {TEXT}",
                    "embedding": encoded(vector),
                    "metadata": metadata(index, index % 5 < 3, index % 200 == 0),
                }
                for index, vector in zip(batch, clustered(rng, len(batch), dimension), strict=True)
            ]
            client.post("/collections/sizes/documents", json={"documents": documents}).raise_for_status()
    return time.perf_counter() - began


def main() -> None:
    """Measure the memory and the disk space of documents."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", choices=("embedded", "remote"), default="embedded")
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000])
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    print("| documents | disk | Chroma, at rest | Chroma, loading | service, at rest | service, loading | added in |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = 0
        for count in options.counts:
            with started(folder, options.store) as (service, chroma):
                seconds = add(service.url, rng, range(before, count), options.dimension)
                loading = [memory(pid, "VmHWM") for pid in (chroma_pid(service, chroma), service.process.pid)]
            with started(folder, options.store) as (service, chroma):
                query = {"query_embedding": encoded(clustered(rng, 1, options.dimension)[0])}
                httpx.post(f"{service.url}/collections/sizes/query", json=query, timeout=60).raise_for_status()
                resting = [memory(pid, "VmRSS") for pid in (chroma_pid(service, chroma), service.process.pid)]
            data = folder / ("chroma" if options.store == "remote" else "data")
            disk = sum(file.stat().st_size for file in data.rglob("*") if file.is_file()) / 2**20
            print(
                f"| {count:,} | {disk:.0f} MiB | {resting[0]:.0f} MiB | {loading[0]:.0f} MiB | {resting[1]:.0f} MiB "
                f"| {loading[1]:.0f} MiB | {seconds:.0f} s |",
                flush=True,
            )
            before = count


if __name__ == "__main__":
    main()
