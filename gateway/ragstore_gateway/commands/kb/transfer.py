"""`kb export` and `kb import`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from ragstore_client import NotFound
from ragstore_client.gateway import AsyncGatewayClient, KnowledgeBase, Stored
from ragstore_gateway.commands.documents import STDIN
from ragstore_gateway.commands.ingestion import Line, ingest_all
from ragstore_gateway.commands.kb import archive
from ragstore_gateway.commands.progress import ProgressBar


async def export_base(gateway: AsyncGatewayClient, base: Stored[KnowledgeBase], path: str) -> tuple[int, list[str]]:
    """Write an archive.

    Args:
        base: the knowledge base.
        path: the file, or `-` for standard output.

    Returns:
        The number of documents, and the names of documents without a text.
    """
    if path == STDIN:
        return await _export(gateway, base, sys.stdout.buffer)
    with archive.written(path) as file:
        return await _export(gateway, base, file)


async def _export(gateway: AsyncGatewayClient, base: Stored[KnowledgeBase], file: IO[bytes]) -> tuple[int, list[str]]:
    exported, left_out = 0, []
    file.write(archive.line(archive.Header(base.fields)))
    states = [state async for state in gateway.iter_documents(base)]
    with ProgressBar("export", len(states), shown=True) as progress:
        for state in states:
            try:
                text = await gateway.document_text(base, state.name)
            except NotFound:
                left_out.append(state.name)
            else:
                file.write(archive.line(msgspec.convert(text, archive.Document, from_attributes=True)))
                exported += 1
            progress.done(state.name)
    file.write(archive.line(archive.End(exported)))
    file.flush()
    return exported, left_out


@contextmanager
def readable(path: str) -> Iterator[IO[bytes]]:
    """An archive as a file that can be read repeatedly.

    Args:
        path: the file, or `-` for standard input.
    """
    if path != STDIN:
        with Path(path).open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        yield file


async def import_base(
    gateway: AsyncGatewayClient, file: IO[bytes], name: str, report: Callable[[Line], None], *, shows_progress: bool
) -> int:
    """Create a knowledge base from an archive.

    Args:
        file: the archive, which can be read repeatedly.
        name: its name; the name in the archive if empty.
        report: is called with the outcome of each document.
        shows_progress: whether a progress bar may be shown.

    Returns:
        The number of documents that failed.

    Raises:
        BadArchive: the archive is damaged or incomplete; nothing was created.
    """
    checked = archive.opened(file)
    configuration = checked.header.configuration | ({"name": name} if name else {})
    base = await gateway.bases.create(configuration)
    with ProgressBar("import", checked.count, shown=shows_progress) as progress:
        return await ingest_all(gateway, base, checked.documents(), progress, report)
