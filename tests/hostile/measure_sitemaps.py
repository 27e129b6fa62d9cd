"""Measures what the sitemaps of a website cost other callers: `python -m tests.hostile.measure_sitemaps`.

A real gateway runs a source of a website whose robots.txt names a hostile sitemap. This process requests
`GET /health/live` all the time, and prints the longest wait and the 99th percentile, with the longest of a quiet time.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import httpx

from tests.support.changing_site import TEA, XML, ChangingSite, changing_site
from tests.support.gateways import start_gateway
from tests.support.ingestion import client_of, embedding_server
from tests.support.servers import running
from tests.support.sources import SourceBase, source_of

QUIET_SECONDS: Final = 5.0
MAX_SECONDS: Final = 60.0
MANY: Final = 40_000


def _index(site: ChangingSite, path: str, names: Sequence[str]) -> str:
    entries = "".join(f"<sitemap><loc>{site.origin}/{name}</loc></sitemap>" for name in names)
    return site.put(path, f"<sitemapindex>{entries}</sitemapindex>", XML)


def _flat(site: ChangingSite) -> str:
    return _index(site, "/index.xml", [f"{number}.xml" for number in range(MANY)])


def _deep(site: ChangingSite) -> str:
    for number in range(60):
        _index(site, f"/{number}.xml", [f"{(number + 1 + other) % 60}.xml?{number}-{other}" for other in range(MANY)])
    return f"{site.origin}/0.xml"


def _gzip(site: ChangingSite) -> str:
    return site.put("/packed.xml.gz", gzip.compress(b"<urlset>" + b"<loc " * 2_000_000), "application/gzip")


def _surrogates(site: ChangingSite) -> str:
    return site.put("/wide.xml.gz", gzip.compress(b"\xff\xfe" + b"\0\xdc" * 5_000_000), "application/gzip")


def _urls(site: ChangingSite) -> str:
    entries = "".join(f"<url><loc>{site.origin}/p/{number}</loc></url>" for number in range(50_000))
    return site.put("/urls.xml", f"<urlset>{entries}</urlset>", XML)


def _reference(site: ChangingSite) -> str:
    return site.put("/charref.xml", f"<urlset><url><loc>{site.origin}/a&#{'9' * 5000};</loc></url></urlset>", XML)


CASES: Final[dict[str, Callable[[ChangingSite], str]]] = {
    f"an index with {MANY:,} sitemaps": _flat,
    f"an index of indexes with {MANY:,} each": _deep,
    "a gzip with 2 million `<loc `": _gzip,
    "a gzip with 5 million halves of surrogate pairs in UTF-16": _surrogates,
    "50,000 pages": _urls,
    "a reference to a character of 5,000 digits": _reference,
}


def _serve(name: str, connection: Connection) -> None:
    """Serve the website, in a process of its own: its work must not delay the measurement."""
    with changing_site() as site:
        site.article("/", "Start", TEA)
        site.robots(f"Sitemap: {CASES[name](site)}")
        connection.send((site.origin, site.port))
        connection.recv()


async def _waits(client: httpx.AsyncClient, waits: list[float]) -> None:
    while True:
        started = time.perf_counter()
        (await client.get("/health/live")).raise_for_status()
        waits.append(time.perf_counter() - started)
        await asyncio.sleep(0.002)


async def _measured(url: str, site: ChangingSite) -> str:
    async with client_of(url) as client, client_of(url) as other, embedding_server() as server:
        quiet: list[float] = []
        waits: list[float] = []
        base = await SourceBase.follow(client, server, source_of(site))
        probe = asyncio.create_task(_waits(other, quiet))
        await asyncio.sleep(QUIET_SECONDS)
        probe.cancel()
        run = await base.begin()
        started = time.monotonic()
        probe = asyncio.create_task(_waits(other, waits))
        found = await base.read_run(run)
        while found["status"] == "running" and time.monotonic() - started < MAX_SECONDS:
            await asyncio.sleep(0.2)
            found = await base.read_run(run)
        seconds = time.monotonic() - started
        probe.cancel()
        if found["status"] == "running":
            await client.delete(base.at(f"runs/{run}"))
        end = f"{found['status']} {found['reason']}".strip()
        worst, usual = max(waits), sorted(waits)[int(0.99 * len(waits))]
        return f"{max(quiet) * 1000:.0f} ms | {worst * 1000:.0f} ms | {usual * 1000:.0f} ms | {seconds:.1f} s | {end} |"


def _row(name: str, folder: Path) -> str:
    with ExitStack() as stack:
        own, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(name, theirs), daemon=True)
        process.start()
        stack.callback(process.join)
        stack.callback(own.send, "end")
        origin, port = own.recv()
        site = ChangingSite()
        site.port = port
        assert site.origin == origin
        environ = {
            "RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{port}",
            "RAGSTORE_GATEWAY_FETCH_MAX_BYTES": str(16 * 1024 * 1024),
        }
        served = stack.enter_context(running(start_gateway(folder, environ)))
        return f"| {name} | {asyncio.run(_measured(served.url, site))}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the sitemaps, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    options = parser.parse_args(arguments)
    print("| robots.txt names | quiet | others | p99 | run | end |\n| --- | --- | --- | --- | --- | --- |")
    for name in CASES:
        if options.only in name:
            with tempfile.TemporaryDirectory() as folder:
                print(_row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
