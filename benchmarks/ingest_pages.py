"""Measure `ragstore-gateway ingest` on local pages: a first run, an interrupted one, and one that finds nothing new.

    python -m benchmarks.ingest_pages --pages 1000

The pages are those of `benchmarks.extraction`, each with paragraphs of random words. Store and embeddings run in the
process of the command.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.extraction import PAGES

WORDS = ("tea", "water", "leaf", "brew", "minute", "kettle", "boil", "cool", "green", "black", "river", "bridge")
PARAGRAPHS = 8
WORDS_OF_A_PARAGRAPH = 60


def write_pages(folder: Path, count: int) -> None:
    """Write pages.

    Args:
        folder: where they go.
        count: their number.
    """
    source = sorted(PAGES.glob("*.html"))
    generator = random.Random(3)  # noqa: S311  # no secret
    for number in range(count):
        page = source[number % len(source)].read_text()
        own = "".join(
            f"<p>{' '.join(generator.choice(WORDS) for _ in range(WORDS_OF_A_PARAGRAPH)).capitalize()}.</p>"
            for _ in range(PARAGRAPHS)
        )
        for heading in ("</h1>", "</H2>", "</div>"):
            if heading in page:
                page = page.replace(heading, heading + own, 1)
                break
        (folder / f"{number:05}.html").write_text(page)


def run(folder: Path, data: Path, interrupt_after: int = 0) -> str:
    """Run the command once.

    Args:
        folder: the pages.
        data: the store's data.
        interrupt_after: number of pages after which the command is interrupted; 0 for never.

    Returns:
        A row of the table.
    """
    command = [sys.executable, "-m", "ragstore_gateway", "ingest", "--json", "--collection", "pages", str(folder)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}
    environ["RAGSTORE_GATEWAY_DATA_PATH"] = str(data)
    started = time.perf_counter()
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        lines = []
        for text in process.stdout or ():
            lines.append(json.loads(text))
            if len(lines) == interrupt_after:
                process.send_signal(signal.SIGINT)
    seconds = time.perf_counter() - started
    unchanged = sum(line.get("unchanged", False) for line in lines)
    chunks = sum(line.get("chunks", 0) for line in lines)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    return f"| {len(lines)} | {chunks} | {unchanged} | {seconds:.1f} s | {len(lines) / seconds:.1f} | {memory} MiB |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pages, data = Path(folder) / "pages", Path(folder) / "data"
        pages.mkdir()
        write_pages(pages, arguments.pages)
        print("| run | pages | chunks | unchanged | time | pages/s | memory of the largest process |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for name, interrupt_after in (("interrupted", arguments.pages // 2), ("continued", 0), ("again", 0)):
            print(f"| {name} {run(pages, data, interrupt_after)}", flush=True)


if __name__ == "__main__":
    main()
