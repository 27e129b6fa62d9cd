"""Measures how long single legal requests to the gateway let others wait: `python -m tests.hostile.measure_requests`.

Prints a Markdown table. The wait is the longest one of another process for `GET /health/live` during the request. The
row `quiet` is the same without a request: on a machine with other work, only the difference means something. The column
`loop, CPU` is the longest step of the event loop as CPU time of its thread, to which other processes do not add.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from ragstore_gateway.extraction.kept_text import KEPT_TEXT
from tests.hostile.watchdog import watched
from tests.support.fake_sites import FakeSite, fake_site
from tests.support.fake_upstream import fake_upstream
from tests.support.gateways import FAST_MODEL
from tests.support.pages import ROOT
from tests.support.servers import Served, free_port, running, start_process

MB = 1_000_000
WORDS = "The boiler is checked weekly, and its valve twice a year. "
PAUSE_SECONDS = 0.005
QUIET_SECONDS = 2.0

HEAD = "| request | status | sent | time | others, ms | loop, CPU, ms | memory, peak above before |"


def words(size: int) -> str:
    """A text of a size."""
    return (WORDS * (size // len(WORDS) + 1))[:size]


def probe(url: str, pipe: Connection) -> None:
    """Call the gateway without an end, and report the longest wait since the last report when that is requested."""
    address = urlsplit(url).netloc
    connection = http.client.HTTPConnection(address, timeout=300)
    worst = 0.0
    while True:
        if pipe.poll():
            if not pipe.recv():
                return
            pipe.send(worst)
            worst = 0.0
        started = time.perf_counter()
        connection.request("GET", "/health/live")
        connection.getresponse().read()
        worst = max(worst, time.perf_counter() - started)
        time.sleep(PAUSE_SECONDS)


@contextmanager
def probing(url: str) -> Iterator[Callable[[], float]]:
    """Another caller while the block runs. The function returns its longest wait since the last call."""
    own, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=probe, args=(url, other), daemon=True)
    process.start()

    def worst() -> float:
        own.send(True)
        seconds: float = own.recv()
        return seconds

    worst()
    try:
        yield worst
    finally:
        own.send(False)
        process.join(10)


class Requests:
    """The requests.

    Args:
        client: a client of the gateway.
        site: a site that it may fetch.
    """

    def __init__(self, client: httpx.Client, site: FakeSite) -> None:
        self.client = client
        self._site = site

    def _chat(self, content: str, model: str = "rag/m") -> httpx.Response:
        body = f'{{"model":"{model}","messages":[{{"role":"user","content":"{content}"}}]}}'
        return self.client.post("/v1/chat/completions", content=body.encode())

    def quiet(self) -> httpx.Response:
        """Nothing."""
        time.sleep(QUIET_SECONDS)
        return self.client.get("/health/live")

    def chat_31_mb(self) -> httpx.Response:
        """A question of 31 MB."""
        return self._chat(words(31 * MB))

    def chat_31_mb_of_escapes(self) -> httpx.Response:
        """The same, of escape sequences."""
        return self._chat(r"k\u00e4se\n" * (31 * MB // 11))

    def chat_31_mb_in_parts(self) -> httpx.Response:
        """The same, in 20,000 parts."""
        part = json.dumps({"type": "text", "text": words(1500)})
        body = f'{{"model":"rag/m","messages":[{{"role":"user","content":[{",".join([part] * 20_000)}]}}]}}'
        return self.client.post("/v1/chat/completions", content=body.encode())

    def chat_31_mb_with_half_a_pair(self) -> httpx.Response:
        """A question of 31 MB with half a surrogate pair."""
        return self._chat(words(31 * MB) + r"\ud83d")

    def chat_1_mb_with_half_a_pair(self) -> httpx.Response:
        """A question of 1 MB with half a surrogate pair."""
        return self._chat(words(MB) + r"\ud83d")

    def chat_without_rag_31_mb(self) -> httpx.Response:
        """A question of 31 MB that passes through."""
        return self._chat(words(31 * MB), "m")

    def model_name_30_mb(self) -> httpx.Response:
        """The name of a model of 30 MB."""
        return self._chat("boiler", "rag/" + "n" * 30 * MB)

    def embed_60_mb_of_blanks(self) -> httpx.Response:
        """One text of 60 MB of blanks."""
        return self.client.post("/embed", json={"texts": [" " * 60 * MB]})

    def form_with_a_file_of_50_mb(self) -> httpx.Response:
        """`/v1/files` with a file of 50 MB."""
        return self.client.post("/v1/files", files={"file": ("a.txt", words(50 * MB))}, data={"purpose": "assistants"})

    def form_with_a_field_of_55_mb(self) -> httpx.Response:
        """`/v1/files` with a field of 55 MB."""
        return self.client.post("/v1/files", files={"file": ("a.txt", "a")}, data={"purpose": "x" * 55 * MB})

    def exported_text_of_40_mb(self) -> httpx.Response:
        """An exported text of 40 MB, until its ingestion ends."""
        content = json.dumps({"text": words(40 * MB), "type": "text/plain"})
        return self._ingest(content, KEPT_TEXT)

    def text_of_9_mb(self) -> httpx.Response:
        """A text of 9 MB, until its ingestion ends."""
        # Chroma needs minutes to index thousands of equal vectors, so no chunk repeats another.
        sentences = (f"Boiler {number} is checked weekly. " for number in count())
        return self._ingest("".join(islice(sentences, 9 * MB // 30))[: 9 * MB], "text/plain")

    def _ingest(self, content: str, media_type: str) -> httpx.Response:
        created = self.client.post("/ragstore/rags", json={"name": f"base-{time.time_ns()}"})
        created.raise_for_status()
        base = created.headers["location"].rpartition("/")[2].partition("?")[0]
        response = self.client.post(
            f"/ragstore/rags/{base}/ingest",
            params={"documentName": "a.txt"},
            content=content.encode(),
            headers={"Content-Type": media_type},
        )
        while response.is_success and self.client.get(response.headers["location"]).json()["status"] in (
            "pending",
            "processing",
        ):
            time.sleep(0.2)
        return response

    def extract_50_pages_of_5_mb(self) -> httpx.Response:
        """`/extract` of 50 pages of 5 MB."""
        page = "<html><body>" + f"<p>{words(1000)}</p>" * 5000 + "</body></html>"
        urls = [self._site.page(f"page-{number}", page[: 5 * MB]) for number in range(50)]
        return self.client.post("/extract", json={"urls": urls})


ROWS: tuple[str, ...] = tuple(name for name in vars(Requests) if not name.startswith("_"))


def start_watched(folder: Path, environ: Mapping[str, str]) -> Served:
    """Start a gateway with a watchdog, and wait until it is ready."""
    port = free_port()
    variables = {
        "RAGSTORE_GATEWAY_PORT": str(port),
        "RAGSTORE_GATEWAY_DATA_PATH": str(folder / "data"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        **environ,
    }
    command = [sys.executable, "-m", "tests.hostile.watched_gateway"]
    served = start_process(command, f"http://127.0.0.1:{port}", folder / "gateway.log", variables)
    served.wait_until_ready("/health/ready")
    return served


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the requests, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of the requests to send")
    parser.add_argument("--times", type=int, default=3, help="how often each is sent")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(fake_upstream())
        site = stack.enter_context(fake_site())
        environ = {
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_MODEL": "m",
            # The default model needs minutes for the chunks of 9 MB.
            "RAGSTORE_GATEWAY_EMBEDDING_MODEL": FAST_MODEL,
            "RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{site.port}",
            "RAGSTORE_GATEWAY_REQUEST_TIMEOUT_SECONDS": "300",
            "RAGSTORE_GATEWAY_LOG_LEVEL": "warning",
        }
        served = stack.enter_context(running(start_watched(folder, environ)))
        client = stack.enter_context(httpx.Client(base_url=served.url, timeout=600))
        worst = stack.enter_context(probing(served.url))
        requests = Requests(client, site)
        print(HEAD)
        print("|" + " --- |" * (HEAD.count("|") - 1))
        for name in ROWS:
            if name == "quiet" or options.only in name:
                print(_row(name, requests, worst, options.times), flush=True)


def _row(name: str, requests: Requests, worst: Callable[[], float], times: int) -> str:
    waits: list[str] = []
    steps: list[str] = []
    grown = 0
    sent = ""
    send: Callable[[], httpx.Response] = getattr(requests, name)
    for _ in range(times):
        worst()
        watched(requests.client)
        started = time.perf_counter()
        response = send()
        sent = f"{response.status_code} | {_sent(response) / MB:.1f} MB | {time.perf_counter() - started:.1f} s"
        waits.append(f"{worst() * 1000:.0f}")
        seen = watched(requests.client)
        steps.append(f"{seen.busy_seconds * 1000:.0f}")
        grown = max(grown, seen.grown_bytes)
    return f"| {name.replace('_', ' ')} | {sent} | {', '.join(waits)} | {', '.join(steps)} | {grown / MB:.0f} MB |"


def _sent(response: httpx.Response) -> int:
    """Size of the body of a request."""
    return int(response.request.headers.get("content-length", 0))


if __name__ == "__main__":
    main()
