"""Data folders as Chroma leaves them when it is killed during a save; made from two saves of a real index."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from chroma_repair.command import main
from chroma_repair.data_lock import DATABASE
from chroma_repair.saved_index import IDS_FILE, read_index
from chroma_repair.segments import IndexConfiguration
from ragstore.chroma.chroma_store import ChromaStore
from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.model.collections import Distance
from ragstore.model.documents import EVERYTHING, Batch
from ragstore.model.metadata import Metadata
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, of_ids, upsert_documents
from tests.support.stores import TENANT

NAME = "notes"
SAVED_EVERY = 20
Damage: TypeAlias = Literal["header cut off", "lengths cut off", "ids not written", "ids half written"]
DAMAGES: Final[tuple[Damage, ...]] = get_args(Damage)
"""The step that the kill interrupts, from the first file that is written to the last."""


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    """Embedded Chroma that saves often."""
    store = ChromaStore(EmbeddedBackend(str(folder), TENANT, "store_tests", 30.0, SAVED_EVERY), 1000)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def numbered(first: int, count: int, text: str = "text") -> Batch:
    """Documents whose ids are numbers, each with its own embedding."""
    ids = [str(number) for number in range(first, first + count)]
    rows = [np.random.default_rng([number, len(text)]).normal(size=3) * 4 for number in range(first, first + count)]
    return Batch(ids, [f"{text} {one}" for one in ids], [{"n": one} for one in ids], np.array(rows, dtype=np.float32))


Content: TypeAlias = dict[str, tuple[str, Metadata, tuple[float, ...]]]
"""Text, metadata and embedding of each document."""


async def content_of(store: Store) -> Content:
    """Every document, with its embedding."""
    found = await store.get(NAME, EVERYTHING, with_embeddings=True)
    assert found.embeddings is not None
    rows = zip(found.ids, found.texts, found.metadatas, found.embeddings.tolist(), strict=True)
    return {document_id: (text, metadata, tuple(row)) for document_id, text, metadata, row in rows}


def same_content(found: Content, expected: Content, distance: Distance) -> bool:
    """Whether two contents are equal; embeddings of a cosine collection within 1e-6, since Chroma rounds them."""
    if distance != "cosine":
        return found == expected
    return found.keys() == expected.keys() and all(
        found[name][:2] == expected[name][:2] and np.allclose(found[name][2], expected[name][2], rtol=1e-6, atol=0)
        for name in found
    )


def run_repair(*arguments: str) -> tuple[int, str]:
    """Run `chroma-repair` in this process: its exit code, and what it prints."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = main(arguments)
    return code, output.getvalue()


def index_of(folder: Path) -> Path:
    """The folder of the only index."""
    (header,) = folder.glob("*/header.bin")
    return header.parent


class Killed(NamedTuple):
    """Two copies of a folder, from before and after the write that made Chroma save an index a second time.

    Attributes:
        before: the copy from before.
        after: the copy from after.
        acknowledged: the documents that Chroma had acknowledged after that write.
    """

    before: Path
    after: Path
    acknowledged: Content


async def saved_twice(folder: Path, distance: Distance) -> Killed:
    """Make the two copies, for a collection with this distance."""
    before, after = folder / "before", folder / "after"
    async with opened(after) as store:
        await store.create_collection(NAME, {}, distance)
        await add_documents(store, NAME, numbered(0, 30))
        await store.delete(NAME, of_ids("3", "28"))
        await upsert_documents(store, NAME, numbered(5, 2, "changed"))
        await add_documents(store, NAME, numbered(3, 1, "again"))
        await upsert_documents(store, NAME, numbered(8, 2, "changed"))
        await store.delete(NAME, of_ids("11"))
        await add_documents(store, NAME, numbered(40, 11))
    shutil.copytree(after, before)
    async with opened(after) as store:
        # A single record, since Chroma keeps the last entry in its log.
        await add_documents(store, NAME, numbered(60, 1))
        return Killed(before, after, await content_of(store))


def left_by(killed: Killed, folder: Path, damage: Damage) -> Content:
    """Make a folder as Chroma leaves it when it is killed during a save, after hnswlib's files were written.

    It has the index of the second save, with the ids and the log position of the first one.

    Args:
        killed: the two copies to make it from.
        folder: the folder to make.
        damage: what the kill interrupted.

    Returns:
        The documents that Chroma had acknowledged.
    """
    shutil.copytree(killed.after, folder)
    _cut_off(folder, killed.before, damage)
    return killed.acknowledged


def _cut_off(folder: Path, first: Path, damage: Damage) -> None:
    """Undo what Chroma does after it has written the files of an index."""
    index = index_of(folder)
    for saved_folder, elements in ((index_of(first), 30), (index, 43)):
        saved = read_index(saved_folder, 3, IndexConfiguration("l2", 16))
        assert saved is not None
        assert (saved.is_complete, saved.elements) == (True, elements)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        database.execute("ATTACH ? AS first", (str(first / DATABASE),))
        with database:
            database.execute("INSERT OR IGNORE INTO embeddings_queue SELECT * FROM first.embeddings_queue")
            database.execute(
                "UPDATE max_seq_id SET seq_id = (SELECT seq_id FROM first.max_seq_id WHERE segment_id = ?) "
                "WHERE segment_id = ?",
                (index.name, index.name),
            )
    if damage == "ids half written":
        half = (index / IDS_FILE).read_bytes()
        (index / IDS_FILE).write_bytes(half[: len(half) // 2])
        return
    shutil.copy(index_of(first) / IDS_FILE, index / IDS_FILE)
    if damage == "lengths cut off":
        shutil.copy(index_of(first) / "length.bin", index / "length.bin")
    elif damage == "header cut off":
        (index / "header.bin").write_bytes(b"")
