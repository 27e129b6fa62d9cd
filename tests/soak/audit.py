"""A soak test of the audit ledger: two processes append under load, and then its chain is verified.

`python -m tests.soak.audit --seconds 60` uses SQLite, `--database postgresql` a PostgreSQL server of its own. The exit
code is 1 if an entry is missing, or the chain is not intact.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import make_url

from ragstore_gateway.conversations.ledger import Ledger
from ragstore_gateway.database.database import Database
from tests.support.postgres import running_postgres

WRITERS: Final = 2
WRITER: Final = """
import asyncio, os, sys, time
from datetime import timedelta
from sqlalchemy import make_url
from ragstore_gateway.conversations.ledger import Ledger
from ragstore_gateway.conversations.repository import ConversationRepository
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import DatabaseUnavailable
from tests.gateway.conversations.factories import step

async def main(url, count, seconds):
    database = Database(make_url(url))
    repository = ConversationRepository(database, Ledger(database), keep_contexts=True, retention=timedelta(days=1))
    key = str(os.getpid())
    written = 0
    async def work(numbers):
        nonlocal written
        for number in numbers:
            if seconds and time.monotonic() > end:
                return
            own = step(number, f"c-{number % 7}", key=key)
            while True:
                try:
                    await repository.write([own])
                    break
                except DatabaseUnavailable:
                    await asyncio.sleep(0.1)
            written += 1
    async with database.running():
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.monotonic() + seconds
        await asyncio.gather(*(work(range(start, count, 4)) for start in range(4)))
    print(written, flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
"""
"""A program that appends: arguments are the database, the maximum number of entries, and the seconds or 0."""


async def soak(url: str, seconds: float) -> bool:
    """Append from several processes, verify the chain, and print the figures.

    Args:
        url: SQLAlchemy's URL of an empty database.
        seconds: duration of the load.

    Returns:
        Whether every entry is in the ledger, and the chain is intact.
    """
    database = Database(make_url(url))
    async with database.running():
        command = [sys.executable, "-c", WRITER, url, str(10**9), str(seconds)]
        pipe = asyncio.subprocess.PIPE
        writers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(WRITERS)]
        for each in writers:
            assert each.stdout is not None
            await each.stdout.readline()
        started = time.monotonic()
        outputs = await asyncio.gather(*(each.communicate(b"start\n") for each in writers))
        loaded = time.monotonic() - started
        written = [int(output) for output, _ in outputs]
        started = time.monotonic()
        check = await Ledger(database).verify()
        verified = time.monotonic() - started
    print(f"| entries, by process | {' + '.join(map(str, written))} |")
    print(f"| entries a second | {sum(written) / loaded:.0f} |")
    print(f"| entries in the ledger | {check.head.count} |")
    print(f"| entries verified a second | {check.head.count / verified:.0f} |")
    print(f"| problems | {len(check.problems)} |")
    for problem in check.problems:
        print(f"WRONG: entry {problem.sequence}: {problem.message}")
    return check.intact and check.head.count == sum(written)


@asynccontextmanager
async def _database(kind: str, folder: Path) -> AsyncIterator[str]:
    if kind == "sqlite":
        yield f"sqlite+aiosqlite:///{folder / 'gateway.db'}"
        return
    with running_postgres() as server:
        yield server.create_database().replace("postgresql://", "postgresql+psycopg://")


async def _run(kind: str, seconds: float) -> bool:
    with tempfile.TemporaryDirectory() as name:
        async with _database(kind, Path(name)) as url:
            return await soak(url, seconds)


def main() -> None:
    """Run the soak test of the audit ledger; exit with 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="soak-audit", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="seconds of load (default: 60)")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"\n| audit ledger, {options.database} | |\n| --- | --- |")
    passed = asyncio.run(_run(options.database, options.seconds))
    print("passed" if passed else "failed")
    sys.exit(not passed)


if __name__ == "__main__":
    main()
