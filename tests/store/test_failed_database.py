"""Embedded Chroma after an error of its database: it is reopened, so that it neither hangs nor loses a write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

WRITES_TO_A_FULL_DISK = """
import os, resource, signal, sys
from pathlib import Path
import numpy as np
from ragstore.chroma.embedded import process as chroma
from ragstore.chroma.operations import CreateCollection, UpsertRecords
from ragstore.chroma.records import RecordBatch

folder = Path(sys.argv[1])
chroma.open_chroma(str(folder), "default_tenant", "default_database", 1000)
collection = chroma.execute(CreateCollection("full", {}, "cosine"))

def write(first, count):
    ids = [str(number) for number in range(first, first + count)]
    records = RecordBatch(ids, np.ones((count, 4), np.float32), ["text"] * count, [{"of": each} for each in ids])
    try:
        chroma.execute(UpsertRecords(collection.id, records))
    except chroma.ChromaProcessError:
        print("failed", flush=True)
    else:
        print(*ids, flush=True)

for round in range(3):
    for number in range(5):
        write(round * 1000 + number * 10, 10)
    largest = max(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    for number in range(5, 25):
        write(round * 1000 + number * 10, (1, 5, 10)[number % 3])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write(round * 1000 + 900, 1)
os.kill(os.getpid(), signal.SIGKILL)
"""

READ = """
import sys
from ragstore.chroma.embedded import process as chroma
from ragstore.chroma.operations import GetCollection, GetRecords

chroma.open_chroma(sys.argv[1], "default_tenant", "default_database", 1000)
print(*chroma.execute(GetRecords(chroma.execute(GetCollection("full")).id)).ids)
"""


def run(program: str, folder: Path) -> list[str]:
    """The lines that a program prints. A program that hangs fails the test."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.splitlines()


def test_a_write_that_is_acknowledged_on_a_full_disk_is_kept_and_later_writes_succeed(tmp_path: Path) -> None:
    outcomes = run(WRITES_TO_A_FULL_DISK, tmp_path / "data")
    (stored,) = run(READ, tmp_path / "data")
    acknowledged = {each for line in outcomes if line != "failed" for each in line.split()}
    assert "failed" in outcomes
    assert {"900", "1900", "2900"} <= acknowledged
    assert acknowledged - set(stored.split()) == set()
