"""Drive a service for the dashboard's picture: python scripts/dashboard_load.py FOLDER [SECONDS].

Starts a Chroma server, the service over it, and Prometheus (Debian's package), which scrapes it every second; sends
reads, writes, filtered queries and mistakes; and takes Chroma away for a while in the middle. Prometheus and the rest
run until the script is interrupted, so that `dashboard_picture.py` can ask.
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
    """Start a program, with its output in a file."""
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **environ})


def start_chroma(folder: Path) -> subprocess.Popen[bytes]:
    """Start Chroma's server."""
    return start(folder, "chroma", str(BIN / "chroma"), "run", "--path", str(folder / "data"), "--port", str(CHROMA))


def embedding() -> list[float]:
    """A random one."""
    return [random.gauss(0, 1) for _ in range(DIMENSION)]


def document(number: int) -> dict[str, object]:
    """A made-up document. A third of all are of layer 0, one in 500 is of topic 7."""
    metadata = {"layer": number % 3, "topic": number % 500}
    return {"id": f"{number}", "text": f"Passage {number}. " * 20, "embedding": embedding(), "metadata": metadata}


class Load:
    """Callers that ask one thing after the other.

    Args:
        session: how they ask.
        until: when they stop.
    """

    def __init__(self, session: aiohttp.ClientSession, until: float) -> None:
        self._session = session
        self._until = until
        self._numbers = itertools.count(10_000)

    async def ask(self, method: str, path: str, body: object = None) -> None:
        """Send one request; how it ends is what the dashboard shows."""
        try:
            async with self._session.request(method, path, json=body) as answer:
                await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(0.2)

    async def query(self) -> None:
        """Queries, most with a filter."""
        while time.monotonic() < self._until:
            where = random.choice([None, {"layer": 0}, {"layer": 0}, {"topic": 7}, {"topic": {"$lt": 50}}])
            await self.ask("POST", "/collections/load/query", {"query_embedding": embedding(), "where": where})
            await asyncio.sleep(random.expovariate(12))

    async def write(self) -> None:
        """Writes, small ones and now and then a large one."""
        while time.monotonic() < self._until:
            several = [document(next(self._numbers)) for _ in range(random.choice([1, 1, 1, 4, 40]))]
            await self.ask(random.choice(["POST", "PUT"]), "/collections/load/documents", {"documents": several})
            await asyncio.sleep(random.expovariate(3))

    async def read(self) -> None:
        """Pages, single documents, deletions, and mistakes."""
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
            await self.ask(*random.choice(calls))
            await asyncio.sleep(random.expovariate(2))


async def ready(session: aiohttp.ClientSession) -> None:
    """Wait until the service is."""
    while True:
        try:
            async with session.get("/health/ready") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.5)


async def drive(folder: Path, seconds: float, chroma: subprocess.Popen[bytes]) -> None:
    """All of the load, and the fault in its middle."""
    url = f"http://127.0.0.1:{SERVICE}"
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:
        await ready(session)
        load = Load(session, time.monotonic() + seconds)
        async with session.post("/collections", json={"name": "load"}, raise_for_status=True):
            pass
        for begin in range(0, 6000, 500):
            batch = [document(number) for number in range(begin, begin + 500)]
            await load.ask("PUT", "/collections/load/documents", {"documents": batch})
        callers = [load.query() for _ in range(6)] + [load.write() for _ in range(10)] + [load.read() for _ in range(4)]
        running = [asyncio.create_task(caller) for caller in callers]
        await asyncio.sleep(seconds * 0.45)
        chroma.kill()
        chroma.wait()
        await asyncio.sleep(AWAY_SECONDS)
        again = start_chroma(folder)
        try:
            await asyncio.sleep(seconds * 0.25)
            # More writers than a queue of 24 takes.
            burst = [asyncio.create_task(load.write()) for _ in range(60)]
            await asyncio.gather(*running, *burst)
            print("The load is over; picture.py may ask now. Interrupt to end.", flush=True)
            await asyncio.Event().wait()
        finally:
            again.terminate()


def main() -> None:
    """Start everything, and end it."""
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
