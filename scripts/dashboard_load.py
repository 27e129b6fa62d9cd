"""Generate load on a service for the dashboard's picture: `python scripts/dashboard_load.py FOLDER [SECONDS]`.

The script starts a Chroma server, the service over it, and Prometheus (Debian's package), which scrapes the service
every second. It sends reads, writes, filtered queries and invalid requests, and kills Chroma for a while in the middle.
All processes run until the script is interrupted, so that `dashboard_picture.py` can query Prometheus.
"""

import asyncio
import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

CHROMA, SERVICE, PROMETHEUS = 18000, 18080, 19090
DIMENSION = 128
AWAY_SECONDS = 15
BIN = Path(sys.executable).parent
CONFIG = f"""
global: {{scrape_interval: 1s, evaluation_interval: 5s}}
rule_files: [{Path(__file__).resolve().parents[1] / "k8s/monitoring/rules.yaml"}]
scrape_configs:
  - job_name: ragstore
    static_configs: [{{targets: ["127.0.0.1:{SERVICE}"]}}]
"""


def start(folder: Path, name: str, *command: str, **environ: str) -> subprocess.Popen[bytes]:
    """Start a program that writes its output to a file."""
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **environ})


def start_chroma(folder: Path) -> subprocess.Popen[bytes]:
    """Start a Chroma server."""
    return start(folder, "chroma", str(BIN / "chroma"), "run", "--path", str(folder / "data"), "--port", str(CHROMA))


def embedding() -> list[float]:
    """A random embedding."""
    return [random.gauss(0, 1) for _ in range(DIMENSION)]


def document(number: int) -> dict[str, object]:
    """A generated document. A third of all documents are in layer 0, one in 500 is in topic 7."""
    metadata = {"layer": number % 3, "topic": number % 500}
    return {"id": f"{number}", "text": f"Passage {number}. " * 20, "embedding": embedding(), "metadata": metadata}


class Load:
    """Clients that send one request after the other.

    Args:
        session: the HTTP session.
        until: the `time.monotonic()` at which they stop.
    """

    def __init__(self, session: aiohttp.ClientSession, until: float) -> None:
        self._session = session
        self._until = until
        self._numbers = itertools.count(10_000)

    async def send(self, method: str, path: str, body: object = None) -> None:
        """Send one request and ignore its result, which the dashboard shows."""
        try:
            async with self._session.request(method, path, json=body) as response:
                await response.read()
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(0.2)

    async def query(self) -> None:
        """Send queries, most of them with a filter."""
        while time.monotonic() < self._until:
            where = random.choice([None, {"layer": 0}, {"layer": 0}, {"topic": 7}, {"topic": {"$lt": 50}}])
            await self.send("POST", "/collections/load/query", {"query_embedding": embedding(), "where": where})
            await asyncio.sleep(random.expovariate(12))

    async def write(self) -> None:
        """Send writes, most of them small, some large."""
        while time.monotonic() < self._until:
            several = [document(next(self._numbers)) for _ in range(random.choice([1, 1, 1, 4, 40]))]
            await self.send(random.choice(["POST", "PUT"]), "/collections/load/documents", {"documents": several})
            await asyncio.sleep(random.expovariate(3))

    async def read(self) -> None:
        """Send reads of pages and single documents, deletions, and invalid requests."""
        calls = [
            ("GET", "/collections/load/documents?limit=20"),
            ("GET", "/collections/load/documents/10000"),
            ("GET", "/collections/load/documents/none"),
            ("GET", "/collections/load"),
            ("GET", "/collections"),
            ("GET", "/collections/load/documents?where=layer"),
            ("GET", "/no/such/path"),
            ("DELETE", "/collections/load/documents?ids=10001&ids=10002"),
        ]
        while time.monotonic() < self._until:
            await self.send(*random.choice(calls))
            await asyncio.sleep(random.expovariate(2))


async def ready(session: aiohttp.ClientSession) -> None:
    """Wait until the service is ready."""
    while True:
        try:
            async with session.get("/health/ready") as response:
                if response.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.5)


async def drive(folder: Path, seconds: float, chroma: subprocess.Popen[bytes]) -> None:
    """Send all load, and kill Chroma in the middle."""
    url = f"http://127.0.0.1:{SERVICE}"
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:
        await ready(session)
        load = Load(session, time.monotonic() + seconds)
        async with session.post("/collections", json={"name": "load"}, raise_for_status=True):
            pass
        for start_number in range(0, 6000, 500):
            batch = [document(number) for number in range(start_number, start_number + 500)]
            await load.send("PUT", "/collections/load/documents", {"documents": batch})
        clients = [load.query() for _ in range(6)] + [load.write() for _ in range(10)] + [load.read() for _ in range(4)]
        running = [asyncio.create_task(client) for client in clients]
        await asyncio.sleep(seconds * 0.45)
        chroma.kill()
        chroma.wait()
        await asyncio.sleep(AWAY_SECONDS)
        restarted = start_chroma(folder)
        try:
            await asyncio.sleep(seconds * 0.25)
            # More writers than a queue of 24 can hold.
            burst = [asyncio.create_task(load.write()) for _ in range(60)]
            await asyncio.gather(*running, *burst)
            print("The load is over: run dashboard_picture.py now. Interrupt to stop.", flush=True)
            await asyncio.Event().wait()
        finally:
            restarted.terminate()


def main() -> None:
    """Start all processes, send the load, and stop them."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 300.0
    (folder / "prometheus.yml").write_text(CONFIG)
    chroma = start_chroma(folder)
    service = start(
        folder,
        "service",
        *(sys.executable, "-m", "ragstore", "serve"),
        RAGSTORE_CHROMA_URL=f"http://127.0.0.1:{CHROMA}",
        RAGSTORE_PORT=str(SERVICE),
        RAGSTORE_QUEUED_WRITES="24",
    )
    prometheus = start(
        folder,
        "prometheus",
        *("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=prometheus"),
        f"--web.listen-address=127.0.0.1:{PROMETHEUS}",
    )
    try:
        asyncio.run(drive(folder, seconds, chroma))
    except KeyboardInterrupt:
        pass
    finally:
        for process in (prometheus, service, chroma):
            process.terminate()
            process.wait()


main()
