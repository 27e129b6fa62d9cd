"""A campaign of hostile callers against a running service: `make hostile`, or `python -m tests.hostile.campaign`.

The service and embedded Chroma run under a memory limit: a control group, or, where none can be made, a watch that
kills the service when its resident memory exceeds the limit. The campaign exits with 1 if a response is wrong, the
service ends, is not ready afterwards, or has exceeded its limit.

The areas: random operations of several callers, each compared with a dictionary; raw HTTP that no client sends; many
collections, made, listed and deleted; bodies that cost much more than their size; 200 slow senders. The areas keys,
faults and quotas are suites of tests, which start services of their own over both stores. The tests beside this file
have the cases for which seconds suffice.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import httpx

from tests.hostile.findings import Findings
from tests.hostile.memory_areas import send_bombs, send_slowly
from tests.hostile.memory_limit import MemoryLimit
from tests.hostile.suites import SUITES, run_suite
from tests.support.servers import Served, running, start_chroma, start_service

CALLERS: Final = 4
ODD_IDS: Final = ("a", "all", "x/y", "%2F", "..", "ä", "a\x00b", "/documents/", "q?x=1", " ")
WEAPONS: Final = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"POST /collections HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /collections HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /collections HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"GET /collections/%ff HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /collections HTTP/1.1\r\nHost: a\r\nAccept: application/msgpack;q=1e999\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    b"A" * 70_000,
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
)
"""Requests that break a rule, and some that look as if they did."""


Area: TypeAlias = Callable[[Served, argparse.Namespace, Findings], None]


def compare_with_dictionaries(service: Served, options: argparse.Namespace, findings: Findings) -> None:
    """Several callers, each with a collection of its own that is compared with a dictionary."""
    with ThreadPoolExecutor(CALLERS) as callers:
        runs = [callers.submit(_compare, service.url, options, number, findings) for number in range(CALLERS)]
        for run in runs:
            run.result()


def _compare(url: str, options: argparse.Namespace, number: int, findings: Findings) -> None:
    chosen = random.Random(options.seed + number)
    name, held = f"oracle-{number}", dict[str, dict[str, Any]]()
    with httpx.Client(base_url=url, timeout=60) as client:

        def send(method: str, path: str, body: object = None) -> Any:
            response = client.request(method, f"/collections/{name}{path}", json=body)
            findings.count("oracle", response.status_code)
            findings.expect(
                response.status_code < 500, f"{method} {path}: {response.status_code} {response.text[:200]}"
            )
            return response.json()

        client.post("/collections", json={"name": name, "distance": "l2"}).raise_for_status()
        ends = time.monotonic() + options.seconds
        while time.monotonic() < ends and not findings.wrong:
            ids = chosen.sample(ODD_IDS, chosen.randint(1, 4))
            step = chosen.choice(("upsert", "add", "delete", "list", "query"))
            documents = [
                {
                    "id": each,
                    "text": chosen.choice(ODD_IDS) * chosen.randint(0, 50),
                    "embedding": [float(chosen.randint(-9, 9)), float(chosen.randint(-9, 9))],
                    "metadata": {"n": chosen.randint(0, 3), "tags": chosen.sample(("x", "y", "z"), 2)},
                }
                for each in ids
            ]
            if step == "upsert":
                send("PUT", "/documents", {"documents": documents})
                held.update((str(each["id"]), each) for each in documents)
            elif step == "add":
                taken = any(each in held for each in ids)
                added = send("POST", "/documents", {"documents": documents})
                findings.expect((added.get("status") == 409) == taken, f"add of {ids}: {added}")
                if not taken:
                    held.update((str(each["id"]), each) for each in documents)
            elif step == "delete":
                expected = sum(each in held for each in ids)
                deleted = send("POST", "/documents/delete", {"ids": ids})
                findings.expect(deleted.get("count") == expected, f"delete of {ids}: {deleted}")
                for each in ids:
                    held.pop(each, None)
            elif step == "list":
                wanted = chosen.randint(0, 3)
                listed = send("POST", "/documents/filter", {"where": {"n": wanted}})
                matching = {key for key, each in held.items() if each["metadata"]["n"] == wanted}
                found = {each["id"] for each in listed["documents"]}
                findings.expect(found == matching and listed["total"] == len(matching), f"list of {wanted}: {listed}")
            else:
                results = send("POST", "/query", {"query_embedding": [0.0, 0.0], "top_k": 20})["results"]
                far = {key: sum(x * x for x in each["embedding"]) for key, each in held.items()}
                same = {each["id"]: each["distance"] for each in results} == far
                findings.expect(same, f"query: {results} instead of {far}")


def break_http(service: Served, options: argparse.Namespace, findings: Findings) -> None:
    """Bytes that are no request, whole and changed at random."""
    chosen = random.Random(options.seed)
    parts = urlsplit(service.url)
    ends = time.monotonic() + options.seconds / 2
    rounds = 0
    while rounds < len(WEAPONS) or time.monotonic() < ends:
        sent = bytearray(WEAPONS[rounds % len(WEAPONS)])
        if rounds >= len(WEAPONS):
            for _ in range(chosen.randint(1, 5)):
                sent[chosen.randrange(len(sent))] = chosen.randrange(256)
        rounds += 1
        received = b""
        address = (str(parts.hostname), parts.port or 0)
        with suppress(OSError), socket.create_connection(address, timeout=10) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            received = connection.recv(65536)
        status = int(received[9:12]) if received.startswith(b"HTTP/1.1 ") else 0
        findings.count("raw HTTP", status)
        findings.expect(status < 500, f"{bytes(sent[:80])!r}: {status}")


def fill_with_collections(service: Served, options: argparse.Namespace, findings: Findings) -> None:
    """Many collections: made, written, queried, listed and deleted."""
    names = [f"many-{number:05d}" for number in range(options.collections)]
    body = {"documents": [{"id": key, "text": "x", "embedding": [float(ord(key))] * 384} for key in "abc"]}
    with httpx.Client(base_url=service.url, timeout=60) as client:

        def send(method: str, path: str, sent: object = None) -> httpx.Response:
            response = client.request(method, path, json=sent)
            findings.count("collections", response.status_code)
            findings.expect(response.is_success, f"{method} {path}: {response.status_code} {response.text[:200]}")
            return response

        for name in names:
            send("POST", "/collections", {"name": name})
            send("PUT", f"/collections/{name}/documents", body)
            send("POST", f"/collections/{name}/query", {"query_embedding": [97.0] * 384})
            if findings.wrong:
                return
        started = time.perf_counter()
        listed = send("GET", "/collections").json()
        findings.figures[f"list of {listed['total']} collections"] = f"{time.perf_counter() - started:.3f} s"
        findings.expect({each["name"] for each in listed["collections"]} >= set(names), "collections are missing")
        started = time.perf_counter()
        send("GET", "/health/ready")
        findings.figures["readiness"] = f"{time.perf_counter() - started:.3f} s"
        for name in names:
            send("DELETE", f"/collections/{name}")


AREAS: Final[dict[str, Area]] = {
    "oracle": compare_with_dictionaries,
    "http": break_http,
    "collections": fill_with_collections,
    "bombs": send_bombs,
    "senders": send_slowly,
}


def run_campaign(store: str, options: argparse.Namespace, folder: Path) -> Findings:
    """Run the areas against a service of its own."""
    findings = Findings()
    memory = MemoryLimit(options.memory_mib * 2**20)
    with ExitStack() as stack:
        stack.callback(memory.close)
        environ = {"RAGSTORE_EMBEDDED_MEMORY_BYTES": str(int(memory.limit_bytes * 0.6))}
        if store == "remote":
            environ["RAGSTORE_CHROMA_URL"] = stack.enter_context(running(start_chroma(folder))).url
        service = stack.enter_context(running(start_service(folder, environ, prefix=memory.prefix)))
        stack.enter_context(memory.watching(service))
        for area in (each for each in AREAS if each in options.areas):
            try:
                AREAS[area](service, options, findings)
            except (httpx.HTTPError, OSError, LookupError) as error:
                findings.wrong.append(f"{area}: {type(error).__name__}: {error}")
        findings.expect(service.process.poll() is None, "the service ended")
        with suppress(httpx.HTTPError):
            ready = httpx.get(f"{service.url}/health/ready", timeout=10).status_code
            findings.expect(ready == 200, f"the service is not ready: {ready}")
        findings.expect(not memory.was_exceeded, "the memory limit was exceeded")
    findings.figures["peak of memory"] = f"{memory.peak_bytes / 2**20:.0f} of {options.memory_mib} MiB ({memory.kind})"
    return findings


def report(subject: str, findings: Findings) -> bool:
    """Print findings.

    Args:
        subject: the store, or the suite.
        findings: what was found.

    Returns:
        Whether nothing was wrong.
    """
    for area, calls in findings.calls.items():
        print(f"{subject}: {area}: " + ", ".join(f"{count} x {status}" for status, count in sorted(calls.items())))
    for name, value in findings.figures.items():
        print(f"{subject}: {name}: {value}")
    for wrong in findings.wrong:
        print(f"{subject}: WRONG: {wrong}")
    print(f"{subject}: {'failed' if findings.wrong else 'passed'}", flush=True)
    return not findings.wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return the exit code."""
    parser = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    parser.add_argument("--store", choices=["embedded", "remote", "both"], default="both")
    parser.add_argument("--areas", nargs="+", choices=[*AREAS, *SUITES], default=[*AREAS, *SUITES])
    parser.add_argument("--seconds", type=float, default=120, help="time of the random areas")
    parser.add_argument("--collections", type=int, default=200, help="number of collections to make")
    parser.add_argument("--memory-mib", type=int, default=1024, help="memory limit of the service")
    parser.add_argument("--suite-memory-mib", type=int, default=3072, help="memory limit of a suite, Chroma included")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    stores = ("embedded", "remote") if options.store == "both" else (options.store,)
    passed = True
    for store in stores if set(AREAS) & set(options.areas) else ():
        with tempfile.TemporaryDirectory() as folder:
            passed &= report(store, run_campaign(store, options, Path(folder)))
    for area in (each for each in SUITES if each in options.areas):
        passed &= report(area, run_suite(area, SUITES[area], options.suite_memory_mib))
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
