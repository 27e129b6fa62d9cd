"""The parameters of the routes of documents, and their bodies in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from litestar.params import PathParameter, QueryParameter

from ragstore.kit.decoding import NDJSON
from ragstore.kit.misfits import described
from ragstore_gateway.api.forms import MULTIPART
from ragstore_gateway.api.uploads import ACCEPTED
from ragstore_gateway.configurations.name_characters import RULE, UNSEEN
from ragstore_gateway.ingestion.document_metadata import MAX_CHARACTERS
from ragstore_gateway.ingestion.documents import DocumentState
from ragstore_gateway.ingestion.names import MAX_NAME, NAME

BaseId = Annotated[str, PathParameter(description="Id of the knowledge base.")]
IngestionId = Annotated[str, PathParameter(description="Id of the ingestion.")]
Version = Annotated[
    int,
    QueryParameter(
        description="An existing version of the base. It is ignored: documents always go into the current version.",
        ge=0,
        le=2**31 - 1,
    ),
]
IngestionIds = Annotated[
    Sequence[str],
    QueryParameter(
        name="ingestionId", max_items=100, description="Ids of ingestions whose states are wanted, at most 100."
    ),
]
DocumentIds = Annotated[
    Sequence[str],
    QueryParameter(name="documentId", max_items=100, description="Restrict the list to these ids, at most 100."),
]
KbId = Annotated[
    str,
    QueryParameter(
        name="kbId",
        max_length=128,
        pattern=described(rf"^[^{UNSEEN}]*$(?!\n)", RULE),
        description="An alias for the status; the base's name by default.",
    ),
]
DocumentName = Annotated[
    str,
    QueryParameter(
        name="documentName",
        max_length=MAX_NAME,
        pattern=NAME,
        description="Name of the document; that of the file by default. An existing document of the name is replaced.",
    ),
]
Metadata = Annotated[
    str,
    QueryParameter(
        name="metadata",
        max_length=MAX_CHARACTERS,
        description='Metadata of the chunks as a JSON object, such as {"session_id": "{session_id}"}; of several '
        "documents, for those that have none of their own. A form may have a field of this name instead.",
    ),
]
Filter = Annotated[str, QueryParameter(description="Part of the name of a document, in any case.", max_length=MAX_NAME)]
State = Annotated[
    DocumentState | None,
    QueryParameter(name="status", description="State of the last ingestion; `failed` includes cancelled ones."),
]
Index = Annotated[int, QueryParameter(description="Number of the page, from 0.", ge=0, le=1_000_000)]
Limit = Annotated[int, QueryParameter(description="Maximum number of documents on the page.", ge=1, le=1000)]

_BINARY: Final = {"schema": {"type": "string", "format": "binary", "minLength": 1}}
_TEXT: Final = {"schema": {"type": "string", "minLength": 1, "pattern": "\\S"}}
_FORM: Final = {
    "schema": {
        "type": "object",
        "required": ["file"],
        "properties": {
            "file": {"type": "string", "format": "binary", "minLength": 1},
            "metadata": {"type": "string", "description": "As the parameter of this name."},
        },
    }
}
UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            **{kind: _TEXT if kind.startswith("text/") else _BINARY for kind in ACCEPTED},
            MULTIPART: _FORM,
        },
    }
}
_FILES: Final = {
    "schema": {
        "type": "object",
        "additionalProperties": {"type": "string", "format": "binary"},
        "minProperties": 1,
    }
}
BATCH: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {NDJSON: {"schema": {"type": "string", "minLength": 1}}, MULTIPART: _FILES},
    }
}
