"""A collection into a file."""

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
from ragstore.transfer.remote import Service


@dataclass(frozen=True)
class Exported:
    """What an export came to.

    Attributes:
        documents: in the file.
        continued: of them, those that an earlier export had left.
        size: of the file, in bytes.
        sha256: the checksum in the file's last line.
    """

    documents: int
    continued: int
    size: int
    sha256: str


@dataclass
class _Begun:
    """What there is of an export.

    Attributes:
        collection: the collection as it was when the export began.
        checksum: of the lines that are kept.
        last_id: of the documents that are kept.
        keep: bytes of the file that are kept.
    """

    collection: CountedCollection
    checksum: Checksum = field(default_factory=Checksum)
    last_id: str = ""
    keep: int = 0


async def export_to_file(
    service: Service, name: str, file: PartialFile, size: int, progress: TransferProgress
) -> Exported:
    """Export a collection into a file, and go on where an earlier export was cut off.

    Args:
        service: where the collection is.
        name: its name.
        file: the file. It stays as it is, to be continued, when the export is cut off.
        size: documents in a page.
        progress: is told how far this is.

    Returns:
        What it came to.

    Raises:
        CollectionChanged: documents were deleted meanwhile; nothing is left to be continued.
    """
    now = await service.collection(name)
    begun = _left_of(file, now) if file.exists() else None
    try:
        if begun is not None:
            try:
                return await _finished(service, file, begun, size, progress)
            except CollectionChanged:
                # What was left is of a collection that has changed since then. What it is now is read from the start.
                now = await service.collection(name)
        return await _finished(service, file, _Begun(now), size, progress)
    except CollectionChanged:
        file.discard()
        raise
    finally:
        file.close()


async def export_to_stream(service: Service, name: str, size: int, progress: TransferProgress) -> Exported:
    """Export a collection to standard output, plain; see `export_to_file`."""
    stream = StandardOutput()
    begun = _Begun(await service.collection(name))
    await _write(service, stream, begun, size, progress)
    return Exported(begun.checksum.documents, 0, stream.finish(), begun.checksum.sha256)


async def _finished(
    service: Service, file: PartialFile, begun: _Begun, size: int, progress: TransferProgress
) -> Exported:
    continued = begun.checksum.documents
    file.open(begun.keep)
    await _write(service, file, begun, size, progress)
    sha256 = begun.checksum.sha256
    return Exported(begun.checksum.documents, continued, file.finish(), sha256)


async def _write(service: Service, sink: Sink, begun: _Begun, size: int, progress: TransferProgress) -> None:
    """Write what is missing. Every page is whole in the file before the next one is asked for."""
    collection, checksum = begun.collection, begun.checksum
    progress.begin(collection.count, checksum.documents)
    if not begun.keep:
        sink.write(checksum.header(collection))
    async for documents in pages(service, collection, size, checksum.documents, begun.last_id):
        sink.write(b"".join(checksum.document(document) for document in documents))
        progress.advance(len(documents))
    sink.write(checksum.trailer())


def _left_of(file: PartialFile, now: CountedCollection) -> _Begun | None:
    """What an earlier export of the same collection has left, or None where that cannot be used."""
    lines = file.whole_lines()
    checksum = Checksum()
    begun = None
    last_id = ""
    for line, place in lines:
        try:
            if begun is None:
                collection = msgspec.json.decode(line, type=Header).collection
                if msgspec.structs.replace(collection, count=now.count) != now or collection.count > now.count:
                    return None
                begun = _Begun(collection)
            elif line.startswith(b'{"count":'):
                break
            else:
                last_id = msgspec.json.decode(line, type=Document).id
        except (msgspec.MsgspecError, UnicodeError):
            break
        checksum.read(line, is_document=bool(last_id))
        if place:
            begun = _Begun(begun.collection, checksum.copy(), last_id, place)
    return begun if begun is not None and begun.keep else None
