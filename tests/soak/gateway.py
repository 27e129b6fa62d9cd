"""A soak test of the gateway's chat: a mixed load with faults of the upstream and callers that leave, with books kept.

`make soak-gateway SOAK="--minutes 10"` runs this. Every question has a number of its own, which the upstream repeats.
The books say what each call must return, that the upstream received each question at most once, and that each request
whose caller left was cancelled. After each round, without load, memory, open files and threads are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx

from tests.gateway.chat.conftest import EXAMPLE, ingest
from tests.soak.resources import Sample, sample, slope, verdicts
from tests.support.fake_upstream import DONE, Exchange, FakeUpstream, completion, delta, fake_upstream
from tests.support.gateways import start_gateway
from tests.support.ledger import wait_until
from tests.support.servers import running

CALLERS: Final = 8
QUIET_SECONDS: Final = 6.0
"""Time without load before a measurement: idle connections to the upstream are kept for 4 s."""

SETTLE_SECONDS: Final = 30.0
MIN_MINUTES: Final = 5.0
"""In a shorter run, memory is reported but not asserted."""

POOL_THREADS: Final = 36
"""Maximum number of threads of asyncio's executor, which starts them one by one when it is used."""

WARM_UP_ROUNDS: Final = 2
LEFT_SECONDS: Final = 5.0
"""Maximum time until the upstream sees that a caller has left: one second, and what a busy machine adds."""

ENVIRON: Final = {
    "RAGSTORE_GATEWAY_UPSTREAM_TIMEOUT_SECONDS": "2",
    "RAGSTORE_GATEWAY_CHAT_MAX_BODY_BYTES": "100000",
    # Every question has a vector of its own, so the default of 64 MiB would fill for an hour: 1,280 bytes for about
    # every second call. This one is full, and evicts, before the baseline.
    "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "131072",
    "RAG_DEBUG_MODE": "true",
}


def number_of(exchange: Exchange) -> str:
    """The number of a question."""
    return str(exchange.request.json["messages"][-1]["content"]).partition("#")[2].partition(" ")[0]


async def reply(exchange: Exchange) -> None:
    """Repeat the number, in a completion or in a stream."""
    text = f"Number {number_of(exchange)} [1] and [9]."
    if not exchange.request.json.get("stream"):
        await exchange.respond(json.dumps(completion(text)).encode())
        return
    await exchange.begin_stream()
    for at in range(0, len(text), 5):
        await exchange.chunk(delta(text[at : at + 5]))
        await asyncio.sleep(0.005)
    await exchange.chunk(delta(None, finish="stop") + DONE)
    await exchange.end_stream()


async def limited(exchange: Exchange) -> None:
    """Reject."""
    await exchange.respond(b'{"error": {}}', status="429 Too Many Requests", headers=["Retry-After: 3"])


async def garbage(exchange: Exchange) -> None:
    """Send what is not HTTP."""
    await exchange.raw(b"\x00\x01\x02 garbage\r\n\r\n")
    exchange.drop()


async def dropped(exchange: Exchange) -> None:
    """Reset the connection."""
    exchange.drop()


async def broken(exchange: Exchange) -> None:
    """Break a stream."""
    await exchange.begin_stream()
    await exchange.chunk(delta("half"))
    await asyncio.sleep(0.05)
    exchange.drop()


async def hanging(exchange: Exchange) -> None:
    """Never respond, or never end a stream."""
    if exchange.request.json.get("stream"):
        await exchange.begin_stream()
        await exchange.chunk(delta("half"))
    await exchange.until_closed()


BEHAVIOURS: Final[dict[str, Callable[[Exchange], Awaitable[None]]]] = {
    "m": reply,
    "limited": limited,
    "cited": garbage,
    "tools": dropped,
    "broken": broken,
    "fallback": hanging,
}
"""Behaviours by model. The upstream lists these models, so each has a `rag/` model."""


class Books:
    """The calls, their results, and the requests that the upstream received.

    Attributes:
        statuses: number of calls by kind and result.
        wrong: sentences about what was wrong.
    """

    def __init__(self, upstream: FakeUpstream) -> None:
        self._upstream = upstream
        self._next = 0
        self._answered: set[str] = set()
        self._left: set[str] = set()
        self.received: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.wrong: list[str] = []

    def number(self) -> str:
        """A new number."""
        self._next += 1
        return str(self._next)

    def check(self, kind: str, number: str, correct: bool, found: object) -> None:
        """Record the result of a call."""
        self.statuses[f"{kind} {'ok' if correct else 'WRONG'}"] += 1
        self._answered.add(number)
        if not correct:
            self.wrong.append(f"{kind}: {str(found)[:300]}")

    def left(self, number: str) -> None:
        """Record that a caller left."""
        self.statuses["left"] += 1
        self._left.add(number)

    async def close(self) -> None:
        """Compare with what the upstream received, and forget it."""
        requests, self._upstream.requests[:] = list(self._upstream.requests), []
        for request in requests:
            if not request.target.endswith("/chat/completions"):
                continue
            number = str(request.json["messages"][-1]["content"]).partition("#")[2].partition(" ")[0]
            self.received[number] += 1
            if number in self._left and request.model == "fallback":
                with suppress(AssertionError):
                    await wait_until(request.closed.is_set, LEFT_SECONDS)
                if not request.closed.is_set():
                    self.wrong.append(f"question {number}: its caller left, and it was not cancelled")
        twice = [number for number, count in self.received.items() if count > 1]
        self.wrong += [f"question {number} reached the upstream more than once" for number in twice]
        self.received.clear()


class Caller:
    """One of several concurrent callers."""

    def __init__(self, client: httpx.AsyncClient, books: Books, seed: int) -> None:
        self._client = client
        self._books = books
        self._random = random.Random(seed)
        self._kinds: list[Callable[[str], Awaitable[None]]] = [
            *[self._plain] * 6,
            *[self._stream] * 6,
            self._limited,
            self._bad_gateway,
            self._broken,
            self._late,
            *[self._leave] * 2,
            self._too_large,
            self._wrong_path,
            self._models,
        ]

    async def work(self, stopped: asyncio.Event) -> None:
        """Call until the round ends."""
        while not stopped.is_set():
            await self._random.choice(self._kinds)(self._books.number())

    def _model(self, name: str) -> str:
        return self._random.choice(["", "rag/"]) + name

    def _body(self, model: str, number: str, **more: Any) -> dict[str, Any]:
        return {"model": model, "messages": [{"role": "user", "content": f"Qdrant release #{number} ?"}], **more}

    async def _post(self, model: str, number: str, **more: Any) -> httpx.Response:
        return await self._client.post("/v1/chat/completions", json=self._body(model, number, **more))

    async def _plain(self, number: str) -> None:
        model = self._model("m")
        found = await self._post(model, number)
        correct = found.status_code == 200 and found.json()["model"] == model
        correct = correct and f"Number {number} [1]" in found.json()["choices"][0]["message"]["content"]
        self._books.check("plain", number, correct, found.text)

    async def _stream(self, number: str) -> None:
        model = self._model("m")
        found = await self._post(model, number, stream=True)
        events = [event.removeprefix("data: ") for event in found.text.split("\n\n") if event.startswith("data: ")]
        chunks = [json.loads(event) for event in events if event != "[DONE]"]
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        correct = events[-1:] == ["[DONE]"] and text == f"Number {number} [1] and [9]."
        correct = correct and {chunk["model"] for chunk in chunks} == {model}
        self._books.check("stream", number, correct, found.text)

    async def _limited(self, number: str) -> None:
        found = await self._post(self._model("limited"), number)
        correct = found.status_code == 429 and found.headers.get("retry-after") == "3"
        self._books.check("limited", number, correct, found.text)

    async def _bad_gateway(self, number: str) -> None:
        found = await self._post(self._model(self._random.choice(["cited", "tools"])), number)
        self._books.check("bad gateway", number, found.status_code == 502, found.text)

    async def _broken(self, number: str) -> None:
        found = await self._post(self._model("broken"), number, stream=True)
        correct = "event: error" in found.text and "[DONE]" not in found.text
        self._books.check("broken stream", number, correct, found.text)

    async def _late(self, number: str) -> None:
        found = await self._post(self._model("fallback"), number)
        self._books.check("late", number, found.status_code == 504, found.text)

    async def _leave(self, number: str) -> None:
        body = self._body(self._model("fallback"), number, stream=self._random.random() < 0.5)
        with suppress(httpx.ReadTimeout):
            await self._client.post(
                "/v1/chat/completions", json=body, timeout=httpx.Timeout(30, read=self._random.uniform(0.01, 0.8))
            )
        self._books.left(number)

    async def _too_large(self, number: str) -> None:
        found = await self._post("m", number, filler="x" * 100_000)
        self._books.check("too large", number, found.status_code == 413, found.text)

    async def _wrong_path(self, number: str) -> None:
        found = await self._client.get("/v1/%2e%2e/keys")
        self._books.check("wrong path", number, found.status_code == 404, found.text)

    async def _models(self, number: str) -> None:
        found = await self._client.get("/v1/models")
        self._books.check("models", number, found.status_code == 200 and "rag/m" in found.text, found.text)


async def soak(minutes: float, round_seconds: float) -> bool:
    """Run the soak test, and print the figures.

    Args:
        minutes: duration of the load, without the warm-up.
        round_seconds: duration of the load between two measurements.

    Returns:
        Whether everything was correct.
    """
    with tempfile.TemporaryDirectory() as name, fake_upstream() as upstream:
        for model, behaviour in BEHAVIOURS.items():
            upstream.on(model, behaviour)
        environ = {**ENVIRON, "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url}
        with running(await asyncio.to_thread(start_gateway, Path(name), environ)) as gateway:
            await asyncio.to_thread(ingest, gateway.url, "memory", EXAMPLE)
            books = Books(upstream)
            pid = gateway.process.pid
            samples: list[Sample] = []
            loaded = 0.0
            short = minutes < MIN_MINUTES
            warm_up = 1 if short else WARM_UP_ROUNDS
            while loaded < minutes * 60 or warm_up:
                started = time.monotonic()
                await _round(gateway.url, books, min(round_seconds, 5.0) if short and warm_up else round_seconds)
                if warm_up:
                    warm_up -= 1
                else:
                    loaded += time.monotonic() - started
                await books.close()
                await asyncio.sleep(QUIET_SECONDS)
                samples.append(await _settled(pid, samples, loaded / 60))
                print(f"{loaded / 60:6.1f} min: {sum(books.statuses.values())} calls, {samples[-1]}", flush=True)
            wrong = books.wrong + verdicts(
                samples[0 if short else WARM_UP_ROUNDS - 1 :], assert_memory=not short, pool_threads=POOL_THREADS
            )
            gauges = (await asyncio.to_thread(httpx.get, gateway.url + "/metrics")).text
            if "ragstore_gateway_streams_in_progress 0.0" not in gauges:
                wrong.append("streams are still counted as in progress")
            _table(samples, books)
    for one in wrong[:20]:
        print(f"WRONG: {one}")
    print("failed" if wrong else "passed")
    return not wrong


async def _round(url: str, books: Books, seconds: float) -> None:
    stopped = asyncio.Event()
    limits = httpx.Limits(keepalive_expiry=2)
    async with (
        httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client,
        asyncio.TaskGroup() as working,
    ):
        for number in range(CALLERS):
            working.create_task(Caller(client, books, number).work(stopped))
        await asyncio.sleep(seconds)
        stopped.set()


async def _settled(pid: int, samples: list[Sample], minutes: float) -> Sample:
    """A sample, once open files and threads are as `verdicts` requires, or after the maximum wait."""

    def settled() -> bool:
        return not verdicts([samples[0], sample(pid)], assert_memory=False, pool_threads=POOL_THREADS)

    if samples:
        with suppress(AssertionError):
            await wait_until(settled, SETTLE_SECONDS)
    return sample(pid, minutes)


def _table(samples: list[Sample], books: Books) -> None:
    first, last = samples[0], samples[-1]
    half = samples[len(samples) // 2 :]
    print("\n| gateway | |\n| --- | --- |")
    print(f"| minutes of load, without the warm-up | {last.minutes:.1f} |")
    print(f"| calls | {', '.join(f'{count} x {what}' for what, count in sorted(books.statuses.items()))} |")
    print(f"| open files, baseline / end | {first.files} / {last.files} |")
    print(f"| threads, baseline / end | {first.threads} / {last.threads} |")
    print(
        f"| memory in MiB, baseline / max / end | {first.memory:.1f} / {max(s.memory for s in samples):.1f} / ", end=""
    )
    print(f"{last.memory:.1f} |")
    print(f"| trend in the second half, MiB a minute | {slope(half):+.2f} |" if len(half) > 2 else "| trend | short |")


def main() -> None:
    """Run the soak test of the gateway's chat; exit with 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="soak-gateway", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="minutes of load (default: 10)")
    parser.add_argument("--round", type=float, default=40, help="seconds of load between two measurements")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    sys.exit(not asyncio.run(soak(options.minutes, options.round)))


if __name__ == "__main__":
    main()
