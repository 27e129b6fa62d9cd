"""Measure the builder of contexts: its time without I/O, a cache hit, the deadline, and the import.

    python -m benchmarks.context_builder

The results are in `docs/answering-with-sources.md`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from ragstore_client import AsyncClient, EmbeddingsClient, Where
from ragstore_client.context import (
    AsyncContextBuilder,
    ChatContext,
    ClientSource,
    ContextSettings,
    Passage,
    estimate_tokens,
)

PASSAGES, TOKENS = 40, 500
BUILDS, HITS, TIMEOUTS, IMPORTS = 300, 2000, 20, 20
SENTENCE = "The warranty of pump number {number} ends after two years, unless the seal of its housing was broken. "


class ReadySource:
    """A source that has its passages in memory."""

    def __init__(self) -> None:
        self.passages = [_passage(number) for number in range(PASSAGES)]

    async def search(
        self, query: str, top_k: int, *, where: Where | None, with_embeddings: bool, deadline: float | None
    ) -> list[Passage]:
        """All passages."""
        return self.passages[:top_k]


def _passage(number: int) -> Passage:
    text = ""
    while estimate_tokens(text) < TOKENS:
        text += SENTENCE.format(number=f"{number}.{len(text)}")
    metadata: dict[str, str | int] = {"file_name": "pumps.pdf", "chunk_index": number}
    return Passage(id=f"p{number}", text=text, metadata={**metadata}, similarity=0.9 - number / 100)


async def _ask(builder: AsyncContextBuilder, number: int) -> ChatContext:
    return await builder.build(f"How long is the warranty of pump {number}?")


async def _timed(call: Callable[[int], Awaitable[ChatContext]], repeats: int) -> list[float]:
    seconds = []
    for number in range(repeats):
        started = time.perf_counter()
        await call(number)
        seconds.append((time.perf_counter() - started) * 1000)
    return seconds


async def builds() -> None:
    """Time of `build()` without I/O, and of a cache hit."""
    builder = AsyncContextBuilder(ReadySource())
    context = await builder.build("How long is the warranty of a pump?")
    if len(context.passages) != PASSAGES:
        sys.exit(f"the context has {len(context.passages)} passages")
    _row(
        f"`build()`, {PASSAGES} passages of {TOKENS} tokens, no I/O",
        await _timed(functools.partial(_ask, builder), BUILDS),
    )
    hit = await _timed(lambda _: builder.build("How long is the warranty of a pump?"), HITS)
    _row("`build()`, a cache hit", hit)
    length = len(context.text())
    texts = []
    for _ in range(BUILDS):
        started = time.perf_counter()
        context.text()
        texts.append((time.perf_counter() - started) * 1000)
    _row(f"`text()` of that context, {length:,} characters", texts)


async def deadlines() -> None:
    """Time of `build()` beyond its time limit, with a store and an embedder that hang."""
    limit = 0.5
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        endpoint = functools.partial(EmbeddingsClient(url).embed, model="m")

        async def ready(_: str) -> list[float]:
            return [1.0, 0.0]

        for name, embed in (("store", ready), ("embedder", endpoint)):
            async with AsyncClient(url) as client:
                source = ClientSource(client, embed, collections=["c"])
                builder = AsyncContextBuilder(source, settings=ContextSettings(timeout_seconds=limit))
                over = await _timed(functools.partial(_ask, builder), TIMEOUTS)
            _row(f"beyond a time limit of {limit} s, {name} hung", [each - limit * 1000 for each in over])


def imports() -> None:
    """Time that imports add, of the processor, as a busy machine does not count then."""
    names = "AsyncContextBuilder, ClientSource, ContextSettings, Scope, check_citations"
    for before, code in (
        ("ragstore_client", "import ragstore_client.context"),
        ("ragstore_client._async.client", f"from ragstore_client.context import {names}"),
    ):
        script = f"import time, {before}\ns = time.process_time()\n{code}\nprint((time.process_time() - s) * 1000)"
        command = [sys.executable, "-c", script]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(IMPORTS)]
        _row(f"`{code}`, after `{before}`", [float(run) for run in runs])


def _row(name: str, milliseconds: list[float]) -> None:
    p99 = statistics.quantiles(milliseconds, n=100, method="inclusive")[98]
    sys.stdout.write(f"| {name} | {statistics.median(milliseconds):.2f} | {p99:.2f} |\n")


def main() -> None:
    """Print the table."""
    logging.disable()
    sys.stdout.write("| what | p50, ms | p99, ms |\n| --- | --- | --- |\n")
    asyncio.run(builds())
    asyncio.run(deadlines())
    imports()


if __name__ == "__main__":
    main()
