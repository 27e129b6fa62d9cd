"""Changes of the metadata of stored documents."""

from __future__ import annotations

from collections.abc import Sequence

from ragstore.errors import InvalidDocuments, InvalidMetadata
from ragstore.model.metadata import NewMetadataValue, validate_metadata_patch
from ragstore.model.metadata_updates import MetadataPatch, MetadataUpdates, UpdateMode
from ragstore.model.received_documents import Fault, rejection
from ragstore.store.protocol import Store


async def update_metadata(
    store: Store,
    name: str,
    mode: UpdateMode,
    documents: Sequence[tuple[str, dict[str, NewMetadataValue]]],
) -> None:
    """Change the metadata of documents, all or none.

    Args:
        name: the collection's name.
        mode: whether keys that are not named stay.
        documents: ids, each with new metadata.

    Raises:
        InvalidRequest: a document is invalid; the error names each of them.
        DocumentsNotFound: a document does not exist.
    """
    (outcome,) = await store.update_documents(name, [_validated(mode, documents)])
    if outcome is not None:
        raise outcome


def _validated(mode: UpdateMode, documents: Sequence[tuple[str, dict[str, NewMetadataValue]]]) -> MetadataUpdates:
    patches: dict[str, MetadataPatch] = {}
    faults: list[Fault] = []
    for index, (document_id, metadata) in enumerate(documents):
        if document_id in patches:
            message = f"Duplicate id '{document_id}' in the request"
            faults.append(Fault(f"$.documents[{index}].id", message, InvalidDocuments))
            continue
        patches[document_id] = {}
        try:
            patches[document_id] = validate_metadata_patch(metadata, f"$.documents[{index}].metadata")
        except InvalidMetadata as error:
            faults += [Fault(field.path, field.message, InvalidMetadata) for field in error.field_errors]
    if faults:
        raise rejection(faults)
    return MetadataUpdates(mode, list(patches), list(patches.values()))
