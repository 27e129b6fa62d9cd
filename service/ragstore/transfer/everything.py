"""All collections of a service, in a folder: one export file for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ragstore.transfer.exporting import export_to_file
from ragstore.transfer.failures import TransferFailed
from ragstore.transfer.files import PartialFile, open_export
from ragstore.transfer.format import ExportReader
from ragstore.transfer.importing import Importer, check_file, import_from
from ragstore.transfer.progress import TransferProgress
from ragstore.transfer.service import Service

SUFFIX: Final = ".jsonl.zst"
SUFFIXES: Final = (".jsonl", SUFFIX)
"""Names of the files that an import reads."""

MAX_STEM: Final = 200
"""Maximum length of a collection's name in a file's name. File systems accept 255 characters, a name may have 512."""

Report = Callable[[str], None]
"""Shows a line."""


class Outcome(NamedTuple):
    """The outcome for all collections.

    Attributes:
        done: number of collections that were transferred.
        failures: the others, with the reason.
    """

    done: int
    failures: list[tuple[str, TransferFailed]]

    def check(self) -> None:
        """Raise the first failure, with the number of all.

        Raises:
            TransferFailed: a collection failed.
        """
        if self.failures:
            name, first = self.failures[0]
            total = self.done + len(self.failures)
            raise type(first)(f"{len(self.failures)} of {total} collections failed; the first: {name}: {first}")


def file_name(collection: str) -> str:
    """The name of a collection's file. The header of the file has the whole name."""
    if len(collection) <= MAX_STEM:
        return collection + SUFFIX
    return f"{collection[:MAX_STEM]}-{hashlib.sha256(collection.encode()).hexdigest()[:16]}{SUFFIX}"


async def export_all(service: Service, folder: Path, size: int, report: Report, *, force: bool) -> Outcome:
    """Export each collection. One that fails does not prevent the others.

    Args:
        folder: the folder, which is created.
        size: maximum number of documents in a request.
        report: shows the result of each collection.
        force: whether files that exist are replaced.
    """
    _create(folder)
    done, failures = 0, []
    for collection in await service.collections():
        target = folder / file_name(collection.name)
        if target.exists() and not force:
            failures.append((collection.name, TransferFailed(f"{target} exists: --force replaces it")))
            continue
        try:
            with TransferProgress(f"export {collection.name}") as progress:
                result = await export_to_file(service, collection.name, PartialFile(target), size, progress)
        except TransferFailed as failure:
            failures.append((collection.name, failure))
            report(f"{collection.name}: {failure}")
            continue
        done += 1
        report(f"{collection.name}: {result.documents} documents, {result.size} bytes")
    return Outcome(done, failures)


async def import_all(
    service: Service,
    folder: Path,
    size: int,
    report: Report,
    hnsw: Mapping[str, int | None],
    *,
    merge: bool,
    verify: bool,
) -> Outcome:
    """Import each file of a folder. One that fails does not prevent the others.

    All files are read to their end before anything is written.

    Args:
        size: maximum number of documents in a batch.
        report: shows the result of each file.
        hnsw: parameters of the index of each collection; None for the file's parameters.
        merge: whether the collections may exist.
        verify: whether each batch is read back and compared.

    Raises:
        TransferFailed: a file cannot be read, or there is none.
        NotVerified: a file is damaged; nothing was written.
    """
    files = _checked_files(folder)
    done, failures = 0, []
    for file in files:
        try:
            with open_export(str(file)) as lines, TransferProgress(f"import {file.name}") as progress:
                reader = ExportReader(lines)
                importer = Importer(service, reader.collection.with_hnsw(**hnsw), merge=merge, verify=verify)
                result = await import_from(reader, importer, size, progress)
        except TransferFailed as failure:
            failures.append((file.name, failure))
            report(f"{file.name}: {failure}")
            continue
        done += 1
        report(f"{reader.collection.name}: {result.documents} documents, {result.skipped} of them existed already")
    return Outcome(done, failures)


def _create(folder: Path) -> None:
    """Create the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TransferFailed(f"{folder} cannot be created: {error.strerror}") from None


def _checked_files(folder: Path) -> list[Path]:
    """The exports in a folder, none of which is damaged."""
    files = sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES))
    if not files:
        raise TransferFailed(f"{folder} holds no export: no file ends in .jsonl or .jsonl.zst")
    for file in files:
        with open_export(str(file)) as lines:
            try:
                check_file(ExportReader(lines))
            except TransferFailed as failure:
                raise type(failure)(f"{file}: {failure}") from None
    return files
