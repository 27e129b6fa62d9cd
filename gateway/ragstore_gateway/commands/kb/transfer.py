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

from ragstore_gateway.commands.documents import STDIN
from ragstore_gateway.commands.gateway_client.client import GatewayClient
from ragstore_gateway.commands.gateway_client.connection import GatewayFailed
from ragstore_gateway.commands.gateway_client.responses import Base
from ragstore_gateway.commands.ingestion import Line, ingest_all
from ragstore_gateway.commands.kb import archive
from ragstore_gateway.commands.progress import DocumentProgress

NOT_FOUND = 404


async def export_base(gateway: GatewayClient, base: Base, path: str) -> tuple[int, list[str]]:
    """Write an archive.

    Args:
        base: the knowledge base.
        path: the file, or `-` for standard output.

    Returns:
        The number of documents, and the names of those without a text.
    """
    if path == STDIN:
        return await _export(gateway, base, sys.stdout.buffer)
    with archive.written(path) as file:
        return await _export(gateway, base, file)


async def _export(gateway: GatewayClient, base: Base, file: IO[bytes]) -> tuple[int, list[str]]:
    exported, left_out = 0, []
    file.write(archive.line(archive.Header(base.configuration)))
    states = [state async for state in gateway.documents(base.id)]
    with DocumentProgress("export", len(states), shown=True) as progress:
        for state in states:
            try:
                text = await gateway.text(base.id, state.name)
            except GatewayFailed as error:
                if error.status != NOT_FOUND:
                    raise
                left_out.append(state.name)
            else:
                file.write(archive.line(archive.Document(**msgspec.structs.asdict(text))))
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
    gateway: GatewayClient, file: IO[bytes], name: str, report: Callable[[Line], None], *, shows_progress: bool
) -> int:
    """Create a knowledge base from an archive.

    Args:
        file: the archive, which can be read repeatedly.
        name: its name; that of the archive if empty.
        report: is called with the outcome of each document.
        shows_progress: whether a progress bar may be shown.

    Returns:
        The number of documents that failed.

    Raises:
        BadArchive: the archive is damaged or incomplete; nothing was created.
    """
    checked = archive.opened(file)
    configuration = checked.header.configuration | ({"name": name} if name else {})
    base = await gateway.create(configuration)
    with DocumentProgress("import", checked.count, shown=shows_progress) as progress:
        return await ingest_all(gateway, base.id, checked.documents(), progress, report)
