"""Hooks that make generated data follow the rules that JSON Schema cannot express.

No check is disabled and no expectation is widened. Only cases that are meant to be valid are changed, to be valid.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec
import schemathesis
from schemathesis import Case, DeserializationContext, HookContext, Response, SerializationContext
from schemathesis.generation.meta import CoveragePhaseData

DIMENSION = 3
"""Dimension of every valid embedding. The embeddings of a request, and of a collection, have one dimension."""

SMALLEST, LARGEST = 1e-6, 1e6
"""Range of the numbers in a valid embedding. A cosine distance is meaningless if the norm is beyond float32."""

HTTP_CALL_HOST = "search.example"
"""The host that httpCalls may use."""

MEMORY = "fd0ba5f4-672f-5ca4-aac7-6a31da028a2f"
"""Id of the knowledge base `memory`, which each gateway has."""

VECTOR_STORE_FIELDS = {
    "createVectorStore": ("description", "metadata", "min_score"),
    "updateVectorStore": ("metadata",),
    "searchVectorStore": ("query", "max_num_results", "rewrite_query"),
    "createVectorStoreFile": ("file_id", "attributes"),
    "createVectorStoreFileBatch": ("file_ids", "attributes"),
}
"""Fields of valid bodies. The others name files or providers, are unique, or have rules of their own."""

WITH_FILES = ("ingestDocument", "createFile", "uploadSourceFiles")
"""Operations that take forms with files."""

STRUCTURED = ("multipart/form-data", "application/vnd.ragstore.text+json")
"""Media types of bodies that are no document of their own."""

EXPRESSION = "^[a-z]+$"
"""Replaces generated regular expressions, which Rust's `regex` may not accept."""

SAMPLED = "FUZZ_SAMPLED"
"""Variable of a run that samples the cases of the coverage phase."""

INT64 = range(-(2**63), 2**63)


_seen: Counter[tuple[str, object]] = Counter()


@schemathesis.hook
def filter_case(ctx: HookContext, case: Case[Any]) -> bool:
    """Keep every case, and in a sampled run the 1st, 2nd, 4th, 8th, ... of each kind in the coverage phase.

    That phase has thousands of cases. A sample reaches all operations and scenarios, and fields anywhere in a body.
    """
    if case.meta is None or not isinstance(case.meta.phase.data, CoveragePhaseData) or SAMPLED not in os.environ:
        return True
    kind = (case.operation.label, case.meta.phase.data.scenario)
    _seen[kind] += 1
    return _seen[kind].bit_count() == 1


@schemathesis.serializer("application/msgpack")
def to_msgpack(ctx: SerializationContext, value: Any) -> bytes:
    """Encode a body as MessagePack, which has no integers beyond 64 bits, and bytes instead of base64."""
    return msgspec.msgpack.encode(_with_bytes(_with_floats(value)))


@schemathesis.deserializer("application/msgpack")
def from_msgpack(ctx: DeserializationContext, response: Response) -> Any:
    """Decode a MessagePack response. The bytes of embeddings become numbers."""
    return _without_bytes(msgspec.msgpack.decode(response.content))


@schemathesis.serializer("application/x-ndjson")
def to_lines(ctx: SerializationContext, value: Any) -> bytes:
    """Encode a stream: a text as it is, one line per item of a list, or one line for anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="replace")
    return b"".join(json.dumps(line).encode() + b"\n" for line in (value if isinstance(value, list) else [value]))


@schemathesis.deserializer("application/x-ndjson")
def from_lines(ctx: DeserializationContext, response: Response) -> Any:
    """Decode the response to a stream."""
    return [json.loads(line) for line in response.content.splitlines()]


@schemathesis.hook
def before_call(ctx: HookContext, case: Case[Any], **kwargs: Any) -> None:
    """Make a case valid if it is meant to be."""
    operation = case.operation.definition.raw["operationId"]
    if operation in ("deleteKnowledgeBase", "deleteVectorStore"):
        # Valid question sets name this base.
        case.path_parameters = {
            name: "absent" if MEMORY in str(value) else value for name, value in (case.path_parameters or {}).items()
        }
    if case.meta is not None and any(component.mode.is_negative for component in case.meta.components.values()):
        if operation in (*WITH_FILES, "createUploadPart") and case.media_type == "multipart/form-data":
            # As a part of a form, a file of another type is a file.
            case.body = {"note": "no file"}
        elif operation in ("ingestDocument", "ingestDocuments") and case.media_type not in STRUCTURED:
            # As a document, or as a line, a value of another type is a text.
            case.body = ""
        return
    if operation in ("createFile", "createUploadPart"):
        # schemathesis checks a changed body again, and considers the bytes of a file no string.
        return
    if isinstance(case.body, dict):
        case.body = _valid_body(operation, case.body)
    elif isinstance(case.body, list):
        case.body = [
            _valid_document(document, index) for index, document in enumerate(case.body) if isinstance(document, dict)
        ]
    case.query = _valid_query(operation, dict(case.query or {}))


def _valid_body(operation: str, body: dict[str, Any]) -> dict[str, Any]:
    valid = dict(body)
    # A cursor is a token of the service.
    valid.pop("after", None)
    if isinstance(valid.get("documents"), list) and operation != "updateDocuments":
        valid["documents"] = [_valid_document(document, index) for index, document in enumerate(valid["documents"])]
    if operation == "summarize":
        # No page may be fetched from this machine, and the base in which the text is stored may not exist.
        valid = {name: value for name, value in valid.items() if name not in ("urls", "collection", "store")}
        valid["text"] = valid.get("text") or "Tea is a drink."
    if operation == "updateDocuments" and isinstance(valid.get("documents"), list):
        valid["documents"] = [
            {**document, "id": f"{document.get('id')}-{index}"} if index else document
            for index, document in enumerate(valid["documents"])
        ]
    if "query_embedding" in valid:
        valid["query_embedding"] = _valid_embedding(valid["query_embedding"])
    for key in ("where", "where_document"):
        if isinstance(valid.get(key), dict):
            valid[key] = _valid_filter(valid[key])
    if isinstance(valid.get("metadata"), dict):
        valid["metadata"] = _with_floats(valid["metadata"])
    if isinstance(valid.get("metadata"), dict) and operation in ("createCollection", "updateCollectionMetadata"):
        # It must equal the collection's distance, or `distance`.
        valid["metadata"].pop("hnsw:space", None)
    if operation == "createEmbeddings":
        # The built-in model has one dimension.
        valid.pop("dimensions", None)
    if operation in ("createKnowledgeBase", "updateKnowledgeBase"):
        valid = _valid_knowledge_base(valid)
    if operation in ("createQuestionSet", "updateQuestionSet"):
        # The base that exists by default, one question, and no span whose end may be before its start.
        valid = {"name": valid["name"], "base": MEMORY, "questions": [{"text": "Tea?"}]}
    if operation in ("createAssistant", "updateAssistant"):
        valid = _valid_assistant(valid)
    if operation in VECTOR_STORE_FIELDS:
        valid = {name: value for name, value in valid.items() if name in VECTOR_STORE_FIELDS[operation]}
        if operation == "createVectorStoreFileBatch":
            valid["file_ids"] = valid.get("file_ids") or ["file-1"]
    if operation == "createUpload":
        # The maximum is a setting.
        valid["bytes"] = min(valid["bytes"], 1000)
    if operation == "splitDocument":
        # No document may exist. The overlap is less than the size.
        valid = {name: value for name, value in valid.items() if name != "documentName"}
        valid["text"] = valid.get("text") or "Tea is a drink."
        valid["chunkSize"] = valid.get("chunkSize", 512)
        valid["chunkOverlap"] = min(valid.get("chunkOverlap", 0), valid["chunkSize"] - 1)
    if operation == "retrieve":
        # Neither an assistant nor a base may exist.
        valid = {"question": valid["question"]}
    if operation == "queryKnowledgeBase":
        # Filters are checked by the engine.
        valid["where"] = {"layer": "chunk"}
    if operation == "deleteDocumentsByBody" and not valid.get("ids"):
        # A filter such as {"$and": [{}]} selects everything, which a deletion rejects.
        valid["where"] = {"layer": "chunk"}
    return valid


def _valid_knowledge_base(body: dict[str, Any]) -> dict[str, Any]:
    """A knowledge base of the default provider and store, whose overlap is less than its size."""
    size = body.get("chunkSize", 512)
    valid = {**body, "chunkOverlap": min(body.get("chunkOverlap", 64), size - 1)}
    for key in ("embeddingProvider", "embeddingParameters", "storeType", "storeParameters", "engine"):
        valid.pop(key, None)
    sources = [_valid_source(source, index) for index, source in enumerate(body.get("sources", []))]
    return {**valid, "sources": sources}


def _valid_source(source: dict[str, Any], index: int) -> dict[str, Any]:
    """A source of uploaded files, with a name of its own. No site is crawled from this machine."""
    valid = {**source, "name": f"files-{index}", "type": "upload", "cron": "0 2 * * *" if source.get("cron") else ""}
    valid.pop("web", None)
    return valid


def _valid_assistant(body: dict[str, Any]) -> dict[str, Any]:
    """An assistant without knowledge bases, whose tasks use an httpCall to a host that is allowed."""
    tasks = [
        {**task, "id": f"task-{index}", "knowledgeBases": [], "enableWorkflowRag": False, "httpCallRag": "search"}
        for index, task in enumerate(body["tasks"])
    ]
    for task in tasks:
        task.pop("rerank", None)
        if isinstance(task.get("where"), dict):
            task["where"] = _valid_filter(task["where"])
    return {**body, "workflow": [], "httpCalls": {"search": {"url": f"https://{HTTP_CALL_HOST}/"}}, "tasks": tasks}


def _valid_query(operation: str, query: dict[str, Any]) -> dict[str, Any]:
    query.pop("after", None)
    for key in ("where", "where_document"):
        if isinstance(query.get(key), str):
            query[key] = json.dumps(_valid_filter(json.loads(query[key])))
        elif isinstance(query.get(key), dict):
            query[key] = _valid_filter(query[key])
    if operation in ("ingestDocument", "ingestDocuments") and "metadata" in query:
        # A text that is JSON.
        query["metadata"] = json.dumps({"language": "en"})
    if operation == "deleteDocuments" and not query.get("ids"):
        query["where"] = json.dumps({"layer": "chunk"})
    return query


def _valid_document(document: dict[str, Any], index: int) -> dict[str, Any]:
    """A document with an embedding of the right dimension and a unique id."""
    valid = {**document, "embedding": _valid_embedding(document.get("embedding"))}
    if index and valid.get("id") is not None:
        valid["id"] = f"{valid['id']}-{index}"
    if isinstance(valid.get("metadata"), dict):
        valid["metadata"] = _with_floats(valid["metadata"])
    return valid


def _valid_embedding(embedding: Any) -> Any:
    """An embedding in the generated form, with the right dimension."""
    if isinstance(embedding, (str, bytes)):
        return base64.b64encode(struct.pack(f"<{DIMENSION}f", *range(1, DIMENSION + 1))).decode()
    numbers = [number for number in embedding or () if number == 0 or SMALLEST <= abs(number) <= LARGEST]
    return (numbers + [1.5] * DIMENSION)[:DIMENSION]


def _valid_filter(value: Any) -> Any:
    """A filter with valid regular expressions and integers of 64 bits."""
    if isinstance(value, dict):
        return {
            key: EXPRESSION if key in ("$regex", "$not_regex") and isinstance(item, str) else _valid_filter(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_valid_filter(item) for item in value]
    return _with_floats(value)


def _with_floats(value: Any) -> Any:
    """Integers beyond 64 bits as floats. The contract accepts only the latter; a schema cannot distinguish the two."""
    if isinstance(value, dict):
        return {key: _with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value not in INT64:
        return float(max(min(value, 10**300), -(10**300)))
    return value


def _with_bytes(value: Any) -> Any:
    """Embeddings in base64 as their bytes. Other strings are unchanged."""
    if isinstance(value, list):
        return [_with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    written = {key: _with_bytes(item) for key, item in value.items()}
    for key in ("embedding", "query_embedding"):
        if isinstance(written.get(key), str):
            with suppress(ValueError):
                written[key] = base64.b64decode(written[key], validate=True)
    return written


def _without_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return list(struct.unpack(f"<{len(value) // 4}f", value))
    if isinstance(value, list):
        return [_without_bytes(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_bytes(item) for key, item in value.items()}
    return value
