"""Bare Chroma: clients, collections, and small programs that run in a process of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

import chromadb
from chromadb.api import ClientAPI
from chromadb.api.collection_configuration import CreateCollectionConfiguration, CreateHNSWConfiguration
from chromadb.config import Settings

DATABASE_PATH: Final = "/api/v2/tenants/default_tenant/databases/default_database"

_PREAMBLE: Final = """
import sys
import chromadb
from chromadb.config import Settings

client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))
"""


def persistent_client(folder: Path) -> ClientAPI:
    """Embedded Chroma over a folder."""
    return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))


def new_name() -> str:
    """A collection's name that no other test uses."""
    return f"t-{uuid4().hex}"


def new_collection(
    client: ClientAPI, index: CreateHNSWConfiguration | None = None, metadata: Mapping[str, str] | None = None
) -> chromadb.Collection:
    """Make a collection.

    Args:
        client: where.
        index: the configuration of its index; Chroma's default when None.
        metadata: its metadata.

    Returns:
        The collection.
    """
    configuration: CreateCollectionConfiguration = {} if index is None else {"hnsw": index}
    return client.create_collection(
        new_name(),
        configuration=configuration,
        metadata=None if metadata is None else dict(metadata),
        embedding_function=None,
    )


def get_collection(client: ClientAPI, name: str) -> chromadb.Collection:
    """Look a collection up."""
    return client.get_collection(name, embedding_function=None)


def start_program(code: str, folder: Path) -> subprocess.Popen[str]:
    """Start a program that finds embedded Chroma over a folder under the name `client`.

    Args:
        code: the program's text.
        folder: Chroma's data.

    Returns:
        The process; its output and errors are piped.
    """
    return subprocess.Popen(
        [sys.executable, "-c", _PREAMBLE + textwrap.dedent(code), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(code: str, folder: Path, timeout: float = 60.0) -> str:
    """Run such a program to its end.

    Args:
        code: the program's text.
        folder: Chroma's data.
        timeout: how long it may take, in seconds.

    Returns:
        What it printed.
    """
    with start_program(code, folder) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, errors
    return output
