"""Measure the gateway's chat in front of a local model server that responds immediately.

`make bench-gateway` runs it. It needs wrk. `--litellm PATH` compares with LiteLLM's proxy in front of the same server.
Both sides of each row are measured in turn within one run: the machine's speed drifts, and both drift with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.load import Measured, Work, load
from benchmarks.stream_clients import jitter, percentile, read_streams
from ragstore_client import Client, NewDocument
from ragstore_gateway.embeddings.wordllama import WordLlamaEmbedder
from tests.gateway.litellm_upstream import KEY, start_litellm
from tests.support.gateways import start_gateway
from tests.support.servers import Served, free_port, running, start_process

CHUNKS: Final = 10_000
QUESTIONS: Final = 50
STREAMS: Final = 500
EVENTS: Final = 200
WORDS: Final = (
    "tea",
    "kettle",
    "water",
    "harvest",
    "leaf",
    "green",
    "black",
    "oolong",
    "mountain",
    "rain",
    "price",
    "garden",
    "warranty",
    "cup",
    "ship",
    "storage",
    "label",
    "temperature",
    "minute",
    "taste",
    "bitter",
    "sweet",
    "farmer",
    "village",
    "export",
    "season",
)


@contextmanager
def model_server(folder: Path) -> Iterator[Served]:
    """Start the model server."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.model_server", str(port)]
    root = str(Path(__file__).parents[1])
    environ = {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    with running(start_process(command, f"http://127.0.0.1:{port}", folder / "model.log", environ)) as served:
        served.wait_until_ready("/v1/models")
        yield served


def fill(url: str) -> None:
    """Store chunks with embeddings of the built-in model."""
    texts = [" ".join(WORDS[(number * step) % len(WORDS)] for step in range(3, 23)) for number in range(CHUNKS)]
    texts = [f"Chunk {number}: {text}" for number, text in enumerate(texts)]
    vectors = asyncio.run(WordLlamaEmbedder().embed(texts, "document"))
    with Client(url, timeout=120) as client:
        client.create_collection("memory")
        for start in range(0, CHUNKS, 500):
            documents = [
                NewDocument(
                    id=str(number),
                    text=texts[number],
                    embedding=vectors[number].tolist(),
                    metadata={"url": f"https://tea.example/{number}"},
                )
                for number in range(start, start + 500)
            ]
            client.upsert_documents("memory", documents)


def bodies(folder: Path, model: str) -> Path:
    """A file of chats, each with another question."""
    path = folder / f"{model.replace('/', '-')}.jsonl"
    lines = [
        json.dumps({"model": model, "messages": [{"role": "user", "content": f"{WORDS[n % len(WORDS)]} number {n}?"}]})
        for n in range(QUESTIONS)
    ]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def measured(works: dict[str, Work], seconds: float, rounds: int) -> dict[str, Measured]:
    """Measure several works in turn, and take the median of each figure."""
    results: dict[str, list[Measured]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            results[name].append(load(work, seconds))
    return {
        name: Measured(
            statistics.median(one.rate for one in found),
            statistics.median(one.p50_ms for one in found),
            statistics.median(one.p99_ms for one in found),
            sum(one.failures for one in found),
        )
        for name, found in results.items()
    }


def memory_mib(pid: int, field: str) -> float:
    """Memory of a process: `VmRSS` now, `VmHWM` at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(field))) / 1024


def row(work: str, figures: str, goal: str) -> None:
    """Print one line of the table."""
    print(f"| {work} | {figures} | {goal} |", flush=True)


def pass_through(urls: dict[str, str], folder: Path, options: argparse.Namespace) -> None:
    """Measure plain requests."""
    plain = bodies(folder, "m")
    one = measured(
        {name: Work(f"{urls[name]}/chat/completions", plain, "POST", 1) for name in ("direct", "gateway")},
        options.seconds,
        options.rounds,
    )
    p50, p99 = (getattr(one["gateway"], name) - getattr(one["direct"], name) for name in ("p50_ms", "p99_ms"))
    row(
        "first byte, 1 caller",
        f"direct {one['direct'].p50_ms:.2f} / {one['direct'].p99_ms:.2f} ms, gateway {one['gateway'].p50_ms:.2f} / "
        f"{one['gateway'].p99_ms:.2f} ms (p50 / p99): adds {p50:.2f} / {p99:.2f} ms",
        "at most 3 / 10 ms",
    )
    names = [name for name in ("direct", "gateway", "litellm") if name in urls]
    many = measured(
        {
            name: Work(f"{urls[name]}/chat/completions", plain, "POST", 32, KEY if name == "litellm" else "")
            for name in names
        },
        options.seconds,
        options.rounds,
    )
    rates = ", ".join(f"{name} {many[name].rate:.0f}" for name in names)
    failures = sum(found.failures for found in many.values())
    row("JSON responses/s, 32 callers", f"{rates}; {failures} failures", "at least 1,500")
    if "litellm" in many:
        row("ratio to LiteLLM's proxy", f"{many['gateway'].rate / many['litellm'].rate:.0f}", "at least 20")


def streams(urls: dict[str, str], gateway: Served) -> None:
    """Measure streams."""
    gaps = {
        name: [gap for _, _, delays in uvloop.run(read_streams(urls[name], "gaps-100-20", 4)) for gap in jitter(delays)]
        for name in ("direct", "gateway")
    }
    row(
        "difference of gaps between chunks, 4 streams, 20 ms",
        ", ".join(
            f"{name} {percentile(found, 50):.2f} / {percentile(found, 99):.2f} ms" for name, found in gaps.items()
        )
        + " (p50 / p99)",
        "at most 2 ms p99",
    )
    started = time.monotonic()
    found = uvloop.run(read_streams(urls["gateway"], f"many-{EVENTS}-5", STREAMS))
    seconds = time.monotonic() - started
    complete = sum(count == EVENTS and done for count, done, _ in found)
    row(
        f"{STREAMS} concurrent streams of {EVENTS} events",
        f"{complete} complete, {sum(count for count, _, _ in found)} events in {seconds:.1f} s, at most "
        f"{memory_mib(gateway.process.pid, 'VmHWM'):.0f} MiB",
        f"{STREAMS} complete, 200 MiB",
    )


def retrieval(urls: dict[str, str], folder: Path, options: argparse.Namespace) -> None:
    """Measure `rag/` beside pass-through."""
    works = {
        name: Work(f"{urls['gateway']}/chat/completions", bodies(folder, model), "POST", 1)
        for name, model in (("plain", "m"), ("rag", "rag/m"))
    }
    load(works["rag"], 2.0)  # embeddings and connections are warm
    found = measured(works, options.seconds, options.rounds)
    p50, p99 = (getattr(found["rag"], name) - getattr(found["plain"], name) for name in ("p50_ms", "p99_ms"))
    row(
        f"`rag/` over pass-through, {CHUNKS} chunks, 1 caller",
        f"pass-through {found['plain'].p50_ms:.2f} / {found['plain'].p99_ms:.2f} ms, "
        f"`rag/` {found['rag'].p50_ms:.2f} / "
        f"{found['rag'].p99_ms:.2f} ms: adds {p50:.2f} / {p99:.2f} ms; {found['rag'].failures} failures",
        "at most 15 / 40 ms",
    )


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="time of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each side; the median counts")
    parser.add_argument("--litellm", default="", help="LiteLLM's program, to compare with")
    options = parser.parse_args()
    if options.litellm:
        os.environ["LITELLM"] = options.litellm
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    with tempfile.TemporaryDirectory() as name, model_server(Path(name)) as server:
        folder = Path(name)
        environ = {
            "RAGSTORE_GATEWAY_UPSTREAM_URL": server.url + "/v1",
            "RAGSTORE_GATEWAY_LOG_LEVEL": "warning",
            "RAGSTORE_GATEWAY_MAX_REQUESTS": str(2 * STREAMS),
        }
        with running(start_gateway(folder, environ)) as gateway:
            fill(gateway.url)
            urls = {"direct": server.url + "/v1", "gateway": gateway.url + "/v1"}
            print("| work | measured | goal |\n| --- | --- | --- |", flush=True)
            streams(urls, gateway)
            retrieval(urls, folder, options)
            if not options.litellm:
                pass_through(urls, folder, options)
                return
            config = (
                "model_list: [{model_name: m, litellm_params: {model: openai/m, api_key: none, api_base: "
                f"'{server.url}/v1'}}}}]\n"
            )
            with running(start_litellm(folder, config)) as litellm:
                pass_through({**urls, "litellm": litellm.url + "/v1"}, folder, options)


if __name__ == "__main__":
    main()
