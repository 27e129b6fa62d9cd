"""The names of the documents of files in a vector store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.ingestion.tables import DocumentRow
from ragstore_gateway.openai_vector_stores.tables import FileRow, VectorStoreFileRow


async def names_of(session: AsyncSession, base_id: str, files: Sequence[FileRow]) -> dict[str, str]:
    """The names of the documents of files. A file whose names all belong to other documents has none."""
    linked = (
        sa.select(VectorStoreFileRow.file_id, DocumentRow.name)
        .join(DocumentRow, DocumentRow.id == VectorStoreFileRow.document_id)
        .where(VectorStoreFileRow.base_id == base_id, VectorStoreFileRow.file_id.in_([file.id for file in files]))
    )
    names: dict[str, str] = {id: name for id, name in await session.execute(linked)}  # noqa: C416  # rows
    left = [file for file in files if file.id not in names]
    choices = {file.id: [name_of(file.filename, file.id, unique=unique) for unique in (False, True)] for file in left}
    wanted = [name for own in choices.values() for name in own]
    used = set(
        await session.scalars(
            sa.select(DocumentRow.name).where(DocumentRow.base_id == base_id, DocumentRow.name.in_(wanted))
        )
    )
    used.update(names.values())
    for id, own in choices.items():
        name = next((each for each in own if each not in used), None)
        if name is not None:
            names[id] = name
            used.add(name)
    return names


async def linked_name(session: AsyncSession, base_id: str, file_id: str) -> str | None:
    """The name of the document of a file that is in the vector store already; None if it is not."""
    query = (
        sa.select(DocumentRow.name)
        .join(VectorStoreFileRow, VectorStoreFileRow.document_id == DocumentRow.id)
        .where(VectorStoreFileRow.base_id == base_id, VectorStoreFileRow.file_id == file_id)
    )
    return await session.scalar(query)


def name_of(filename: str, file_id: str, *, unique: bool) -> str:
    """The name of a file's document: the name of the file, with its id if another document has it."""
    if not unique:
        return filename
    path = PurePosixPath(filename)
    return f"{path.stem} ({file_id}){path.suffix}"
