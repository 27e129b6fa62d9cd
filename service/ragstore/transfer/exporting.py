"""Writes a collection into a file."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document
from ragstore.transfer.failures import CollectionChanged
from ragstore.transfer.files import PartialFile, Sink, StandardOutput
from ragstore.transfer.format import Checksum, Header
from ragstore.transfer.progress import TransferProgress
from ragstore.transfer.reading import pages
from ragstore.transfer.service import Service


@dataclass(frozen=True)
class ExportResult:
    """The result of an export.

    Attributes:
        documents: number of documents in the file.
        continued: number of documents that an earlier, interrupted export had written.
        size: size of the file in bytes.
        sha256: the checksum in the trailer.
    """

    documents: int
    continued: int
    size: int
    sha256: str


@dataclass
class _ExportState:
    """The part of an export that is written.

    Attributes:
        collection: the collection as it was when the export began.
        checksum: checksum of the lines that are kept.
        last_id: id of the last document that is kept.
        keep_bytes: length of the file that is kept.
    """

    collection: CountedCollection
    checksum: Checksum = field(default_factory=Checksum)
    last_id: str = ""
    keep_bytes: int = 0


async def export_to_file(
    service: Service, name: str, file: PartialFile, size: int, progress: TransferProgress
) -> ExportResult:
    """Export a collection into a file, and continue an earlier export that was interrupted.

    Args:
        service: the service that has the collection.
        name: the collection's name.
        file: the file. When the export is interrupted it is kept, so that it can be continued.
        size: documents per page.
        progress: shows how many documents are done.

    Returns:
        The result.

    Raises:
        CollectionChanged: documents were deleted meanwhile; the file is deleted.
    """
    current = await service.collection(name)
    interrupted = _interrupted_export(file, current) if file.exists() else None
    try:
        if interrupted is not None:
            try:
                return await _complete(service, file, interrupted, size, progress)
            except CollectionChanged:
                # The collection has changed since the interrupted export. Start over with its current state.
                current = await service.collection(name)
        return await _complete(service, file, _ExportState(current), size, progress)
    except CollectionChanged:
        file.discard()
        raise
    finally:
        file.close()


async def export_to_stream(service: Service, name: str, size: int, progress: TransferProgress) -> ExportResult:
    """Export a collection to standard output, not compressed; see `export_to_file`."""
    stream = StandardOutput()
    state = _ExportState(await service.collection(name))
    await _write(service, stream, state, size, progress)
    return ExportResult(state.checksum.documents, 0, stream.finish(), state.checksum.sha256)


async def _complete(
    service: Service, file: PartialFile, state: _ExportState, size: int, progress: TransferProgress
) -> ExportResult:
    continued = state.checksum.documents
    file.open(state.keep_bytes)
    await _write(service, file, state, size, progress)
    return ExportResult(state.checksum.documents, continued, file.finish(), state.checksum.sha256)


async def _write(service: Service, sink: Sink, state: _ExportState, size: int, progress: TransferProgress) -> None:
    """Write the rest. Each page is completely written before the next one is requested."""
    collection, checksum = state.collection, state.checksum
    progress.begin(collection.count, checksum.documents)
    if not state.keep_bytes:
        sink.write(checksum.header(collection))
    async for documents in pages(service, collection, size, checksum.documents, state.last_id):
        sink.write(b"".join(checksum.document(document) for document in documents))
        progress.advance(len(documents))
    sink.write(checksum.trailer())


def _interrupted_export(file: PartialFile, current: CountedCollection) -> _ExportState | None:
    """The state of an interrupted export of the same collection; None if it cannot be continued."""
    checksum = Checksum()
    state = None
    last_id = ""
    for line, keep_bytes in file.complete_lines():
        try:
            if state is None:
                collection = msgspec.json.decode(line, type=Header).collection
                same = msgspec.structs.replace(collection, count=current.count) == current
                if not same or collection.count > current.count:
                    return None
                state = _ExportState(collection)
            elif line.startswith(b'{"count":'):
                break
            else:
                last_id = msgspec.json.decode(line, type=Document).id
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            break
        checksum.add_line(line, is_document=bool(last_id))
        if keep_bytes:
            state = _ExportState(state.collection, checksum.copy(), last_id, keep_bytes)
    return state if state is not None and state.keep_bytes else None
