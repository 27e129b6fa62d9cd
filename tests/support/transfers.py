"""Services with collections to move, and the commands that move them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
from click.testing import CliRunner, Result

from ragstore.cli import main
from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document
from ragstore.transfer.files import open_export
from ragstore.transfer.format import ExportReader
from tests.support.servers import Served

RAGSTORE = str(Path(sys.executable).parent / "ragstore")

INTERRUPTIBLE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Restores the default action of SIGINT, then becomes the command.

A `preexec_fn` would do the same between fork and exec. There, the handlers of gRPC for a fork run, too, where a test of
this process has imported it, and they have written to the standard error of the command.
"""


@dataclass(frozen=True)
class Store:
    """A service and an HTTP client of it."""

    served: Served
    http: httpx.Client

    @classmethod
    @contextmanager
    def of(cls, served: Served) -> Iterator[Self]:
        """A service with an HTTP client."""
        with httpx.Client(base_url=served.url, timeout=60, limits=httpx.Limits(keepalive_expiry=2)) as http:
            yield cls(served, http)

    @property
    def url(self) -> str:
        """The service's address."""
        return self.served.url

    def create(self, name: str, distance: str = "l2", **metadata: Any) -> None:
        """Create a collection."""
        body = {"name": name, "distance": distance, "metadata": metadata}
        self.http.post("/collections", json=body).raise_for_status()

    def put(self, name: str, *documents: dict[str, Any]) -> None:
        """Store documents."""
        self.http.put(f"/collections/{name}/documents", json={"documents": documents}).raise_for_status()

    def fill(self, name: str, count: int, dimension: int, distance: str) -> None:
        """Create a collection of documents that differ in everything."""
        self.create(name, distance, team="docs", pages=3, share=0.25, public=True)
        embeddings = np.random.default_rng(7).standard_normal((count, dimension)).astype(np.float32)
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            self.put(name, *(document(number, embeddings[number].tolist()) for number in numbers))

    def count(self, name: str) -> int:
        """The number of documents of a collection."""
        return int(self.http.get(f"/collections/{name}").raise_for_status().json()["count"])

    def listed(self, name: str) -> list[dict[str, Any]]:
        """Documents of a collection, up to 1000, with their embeddings."""
        query: dict[str, str | int] = {"include": "embedding", "limit": 1000}
        response = self.http.get(f"/collections/{name}/documents", params=query).raise_for_status()
        documents: list[dict[str, Any]] = response.json()["documents"]
        return documents


def document(number: int, embedding: list[float]) -> dict[str, Any]:
    """A document with a bit of everything."""
    metadata = {"page": number, "share": number / 8, "even": number % 2 == 0, "tags": ["a", f"t{number}"]}
    return {"id": f"handbook:{number}/ü", "text": f"Text {number}: 漢字", "embedding": embedding, "metadata": metadata}


def ragstore(*arguments: str | Path, **environ: str) -> Result:
    """Run the command in this process."""
    cleared = {name: None for name in os.environ if name.startswith("RAGSTORE_")}
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env={**cleared, **environ})


def start(*arguments: str | Path, **pipes: Any) -> subprocess.Popen[bytes]:
    """Start the command that can be interrupted, even where the tests run in the background and ignore SIGINT."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}
    command = [sys.executable, "-c", INTERRUPTIBLE, RAGSTORE, *map(str, arguments)]
    return subprocess.Popen(command, env=inherited, **pipes)


def exported(store: Store, name: str, file: Path, *options: str) -> bytes:
    """The bytes of an export."""
    run = ragstore("export", name, file, "--url", store.url, *options)
    assert run.exit_code == 0, run.output
    return file.read_bytes()


def read_export(file: Path) -> tuple[CountedCollection, list[Document]]:
    """The content of an export."""
    with open_export(str(file)) as lines:
        reader = ExportReader(lines)
        return reader.collection, list(reader.documents())
