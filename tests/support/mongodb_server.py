"""A server with MongoDB's wire protocol, and the part of its documented commands that the gateway uses.

It evaluates filters and `$vectorSearch` as the documentation describes them, over documents in memory, and rejects
everything else. It is no MongoDB: the docs of the gateway say so. Pages of mongodb.com/docs that it follows:

- `atlas/atlas-vector-search/vector-search-stage`: `numCandidates` is at least `limit`, at most 10,000, and not given
  with `exact`; a filter has only fields of the index's type `filter`, and lists of one type.
- `atlas/atlas-vector-search/vector-search-type`: a vector has at most 8,192 dimensions; an index is built after it was
  created, and its status is PENDING, BUILDING, READY or FAILED.
- `atlas/atlas-search/performance/index-performance`: the index is eventually consistent. Here it has the documents of
  a write or a deletion only after some further searches. Deleted documents count for the limit of a search, and
  are removed from its result when the server looks them up.
- `community/forums/t/301828` (an error of the server): the read concern of a search can only be `local`.
- `manual/reference/parameters` (`notablescan`): which filters use no index of the collection.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import bson
import numpy as np
from bson.binary import Binary

Document: TypeAlias = dict[str, Any]

OP_MSG = 2013
INDEX_LAG = 2
"""Searches of a collection that do not find a new write yet."""

MAX_CANDIDATES = 10_000
MAX_DIMENSION = 8192
MAX_TOKEN = 8191
"""Atlas cuts strings of filters off after so many characters: `LuceneConfig.MAX_TERM_CHAR_LENGTH` of mongodb/mongot."""

_NAMESPACE_EXISTS = 48
_INDEX_EXISTS = 68
_SEARCH_FIELDS = frozenset({"index", "path", "queryVector", "exact", "limit", "numCandidates", "filter"})
_FILTERS = frozenset({"$in", "$nin", "$eq", "$and", "$or"})


class _Rejected(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class _Collection:
    documents: dict[str, Document] = field(default_factory=dict)
    indexes: dict[str, Document] = field(default_factory=dict)
    indexed: dict[str, Document] = field(default_factory=dict)
    keys: set[str] = field(default_factory=lambda: {"_id"})
    lag: int = 0


@dataclass
class MongodbServer:
    """A running server.

    Attributes:
        url: its connection string.
        address: its host and port.
        commands: the commands so far, without commands of the connection itself.
        scans: filters of commands that no index of the collection supports.
        index_status: the status of indexes that are created.
    """

    url: str = ""
    address: str = ""
    commands: list[Document] = field(default_factory=list)
    scans: list[Document] = field(default_factory=list)
    index_status: str = "READY"
    _collections: dict[tuple[str, str], _Collection] = field(default_factory=dict)

    @property
    def hello(self) -> Document:
        """The response to a new connection: the primary of a replica set without secondaries."""
        return {**_HELLO, "hosts": [self.address], "me": self.address, "primary": self.address}

    def respond(self, command: Document) -> Document:
        """Execute a command.

        Returns:
            Its response.
        """
        name = next(iter(command))
        if name.lower() in ("hello", "ismaster"):
            return self.hello
        if name in ("ping", "endSessions"):
            return {"ok": 1.0}
        self.commands.append(command)
        handler = getattr(self, f"_{name}", None)
        try:
            if handler is None:
                raise _Rejected(59, f"no such command: '{name}'")
            return {**handler(command), "ok": 1.0}
        except _Rejected as error:
            return {"ok": 0.0, "errmsg": str(error), "code": error.code, "codeName": "Failed"}

    def _create(self, command: Document) -> Document:
        key = (command["$db"], command["create"])
        if key in self._collections:
            raise _Rejected(_NAMESPACE_EXISTS, "Collection already exists")
        self._collections[key] = _Collection()
        return {}

    def _drop(self, command: Document) -> Document:
        self._collections.pop((command["$db"], command["drop"]), None)
        return {}

    def _listCollections(self, command: Document) -> Document:  # noqa: N802 - the command's name
        wanted = command["filter"]["name"]
        found = [{"name": wanted, "type": "collection"}] if (command["$db"], wanted) in self._collections else []
        return _cursor(command["$db"], "$cmd.listCollections", found)

    def _createSearchIndexes(self, command: Document) -> Document:  # noqa: N802 - the command's name
        collection = self._collections[command["$db"], command["createSearchIndexes"]]
        [index] = command["indexes"]
        dimensions = [each["numDimensions"] for each in index["definition"]["fields"] if each["type"] == "vector"]
        if index["type"] != "vectorSearch" or max(dimensions) > MAX_DIMENSION:
            raise _Rejected(9, "wrong type")
        if index["name"] in collection.indexes:
            raise _Rejected(_INDEX_EXISTS, "Duplicate Index")
        latest = {"latestDefinition": index["definition"], "status": "PENDING", "queryable": False}
        collection.indexes[index["name"]] = {"id": "1", "name": index["name"], "type": "vectorSearch", **latest}
        return {"indexesCreated": [{"id": "1", "name": index["name"]}]}

    def _createIndexes(self, command: Document) -> Document:  # noqa: N802 - the command's name
        collection = self._collections[command["$db"], command["createIndexes"]]
        collection.keys |= {key for index in command["indexes"] for key in index["key"]}
        return {}

    def _update(self, command: Document) -> Document:
        key = (command["$db"], command["update"])
        collection = self._collections.setdefault(key, _Collection())
        upserted: list[Document] = []
        for index, update in enumerate(command["updates"]):
            id_ = update["q"]["_id"]
            if id_ not in collection.documents:
                upserted.append({"index": index, "_id": id_})
            collection.documents[id_] = update["u"]
        collection.lag = INDEX_LAG
        count = len(command["updates"])
        return {"n": count, "nModified": count - len(upserted), "upserted": upserted}

    def _commitTransaction(self, _: Document) -> Document:  # noqa: N802 - the command's name
        return {}

    def _delete(self, command: Document) -> Document:
        collection = self._collections.get((command["$db"], command["delete"]), _Collection())
        [deletion] = command["deletes"]
        self._note_scan(collection, deletion["q"])
        found = [id_ for id_, each in collection.documents.items() if _matches(deletion["q"], each)]
        for id_ in found:
            del collection.documents[id_]
        collection.lag = INDEX_LAG
        return {"n": len(found)}

    def _note_scan(self, collection: _Collection, condition: Document) -> None:
        conditions = [condition, *condition.get("$and", [])]
        if condition and not any(key in {"_id", *collection.keys} for each in conditions for key in each):
            self.scans.append(condition)

    def _count(self, command: Document) -> Document:
        collection = self._collections.get((command["$db"], command["count"]), _Collection())
        return {"n": len(collection.documents)}

    def _aggregate(self, command: Document) -> Document:
        name = command["aggregate"]
        collection = self._collections.get((command["$db"], name), _Collection())
        rows = [dict(each) for each in collection.documents.values()]
        first = command["pipeline"][0]
        if "$vectorSearch" in first and command.get("readConcern", {}).get("level", "local") != "local":
            raise _Rejected(72, "$vectorSearch cannot run with a readConcern other than 'local'")
        self._note_scan(collection, first.get("$match", {}))
        for stage in command["pipeline"]:
            rows = self._stage(collection, rows, stage)
        return _cursor(command["$db"], name, rows)

    def _stage(self, collection: _Collection, rows: list[Document], stage: Document) -> list[Document]:
        [(name, content)] = stage.items()
        match name:
            case "$listSearchIndexes":
                found = [index for index in collection.indexes.values() if index["name"] == content["name"]]
                for index in found:  # the next look finds it ready
                    collection.indexes[index["name"]] = {
                        **index,
                        "status": self.index_status,
                        "queryable": self.index_status == "READY",
                    }
                return found
            case "$vectorSearch":
                return _vector_search(collection, content)
            case "$match":
                return [row for row in rows if _matches(content, row)]
            case "$limit":
                return rows[:content]
            case "$count":
                return [{content: len(rows)}] if rows else []
            case "$group":
                return [{"_id": 1, "n": len(rows)}] if rows else []
            case "$project":
                named = [{key: row[key] for key in ("_id", *content) if key in row} for row in rows]
                score = {key for key, value in content.items() if value == {"$meta": "vectorSearchScore"}}
                if not score:
                    return named
                return [{**out, **dict.fromkeys(score, row["$score"])} for out, row in zip(named, rows, strict=True)]
        raise _Rejected(40324, f"Unrecognized pipeline stage name: '{name}'")


def _vector_search(collection: _Collection, search: Document) -> list[Document]:
    if collection.lag:
        collection.lag -= 1
    else:
        collection.indexed = dict(collection.documents)
    index = collection.indexes.get(search["index"])
    if index is None:  # Atlas returns nothing for an index that does not exist
        return []
    fields = index["latestDefinition"]["fields"]
    [vector] = [each for each in fields if each["type"] == "vector"]
    filterable = {each["path"] for each in fields if each["type"] == "filter"}
    candidates = search.get("numCandidates")
    is_limited = candidates is None if search.get("exact") else search["limit"] <= (candidates or 0) <= MAX_CANDIDATES
    if not is_limited or search["limit"] < 1 or set(search) - _SEARCH_FIELDS:
        raise _Rejected(2, "limit or numCandidates is wrong")
    query = _vector(search["queryVector"])
    if len(query) != vector["numDimensions"] or search["path"] != vector["path"]:
        raise _Rejected(8, "vector field is indexed with another dimension")
    condition = search.get("filter", {})
    _check_filter(condition, filterable)
    scored = [
        {**row, "$score": float((1 + float(query @ _vector(row["vector"]))) / 2)}
        for row in collection.indexed.values()
        if _matches(condition, {**row, "tokens": [each[:MAX_TOKEN] for each in row["tokens"]]})
    ]
    scored.reverse()  # equal scores have no order by id
    nearest = sorted(scored, key=lambda row: -row["$score"])[: search["limit"]]
    # The index may still have deleted documents, and former versions. The server looks up the current ones.
    found = [(collection.documents.get(row["_id"]), row["$score"]) for row in nearest]
    return [{**row, "$score": score} for row, score in found if row is not None]


def _check_filter(condition: Document, filterable: set[str]) -> None:
    for key, value in condition.items():
        if key in ("$and", "$or"):
            for each in value:
                _check_filter(each, filterable)
        elif key not in filterable or (isinstance(value, dict) and set(value) - _FILTERS) or _is_mixed(value):
            raise _Rejected(2, f"Path '{key}' needs to be indexed as filter")


def _is_mixed(value: object) -> bool:
    lists = [each for each in value.values() if isinstance(each, list)] if isinstance(value, dict) else []
    return any(len({type(each) for each in values}) != 1 for values in lists)


def _vector(value: object) -> Any:
    assert isinstance(value, Binary)
    return np.array(value.as_vector().data, dtype=np.float32)


def _matches(condition: Mapping[str, Any], document: Document) -> bool:
    return all(_holds(key, value, document) for key, value in condition.items())


def _holds(key: str, value: Any, document: Document) -> bool:
    if key == "$and":
        return all(_matches(each, document) for each in value)
    if key == "$or":
        return any(_matches(each, document) for each in value)
    if key == "$nor":
        return not any(_matches(each, document) for each in value)
    found: Any = document
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    operators = value if isinstance(value, dict) else {"$eq": value}
    return all(_compares(found, operator, operand) for operator, operand in operators.items())


def _compares(found: Any, operator: str, operand: Any) -> bool:
    values = found if isinstance(found, list) else [found]
    match operator:
        case "$eq":
            return operand in values
        case "$in":
            return any(each in operand for each in values)
        case "$nin":
            return not any(each in operand for each in values)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return False
    match operator:
        case "$gt":
            return bool(found > operand)
        case "$gte":
            return bool(found >= operand)
        case "$lt":
            return bool(found < operand)
        case "$lte":
            return bool(found <= operand)
    raise _Rejected(2, f"unknown operator: {operator}")


def _cursor(database: str, name: str, rows: list[Document]) -> Document:
    return {"cursor": {"id": 0, "ns": f"{database}.{name}", "firstBatch": rows}}


_HELLO: Document = {
    "helloOk": True,
    "isWritablePrimary": True,
    "ismaster": True,
    "setName": "rs0",
    "maxBsonObjectSize": 16 * 1024 * 1024,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30,
    "minWireVersion": 0,
    "maxWireVersion": 25,
    "readOnly": False,
    "ok": 1.0,
}


@asynccontextmanager
async def mongodb_server() -> AsyncIterator[MongodbServer]:
    """A server on a free port."""
    running = MongodbServer()
    numbers = itertools.count(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(16)
                length, request, _, code = struct.unpack("<iiii", head)
                payload = _response(running, code, await reader.readexactly(length - 16))
                writer.write(struct.pack("<iiii", 16 + len(payload), next(numbers), request, _code_of(code)) + payload)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    running.address = f"127.0.0.1:{port}"
    running.url = f"mongodb://{running.address}/?directConnection=true"
    try:
        yield running
    finally:
        server.close()


def _code_of(code: int) -> int:
    return OP_MSG if code == OP_MSG else 1


def _response(server: MongodbServer, code: int, body: bytes) -> bytes:
    if code != OP_MSG:  # the first message of a connection is an OP_QUERY, whose response is an OP_REPLY
        return struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(server.hello)
    command: Document = {}
    position = 4
    while position < len(body):
        kind = body[position]
        (size,) = struct.unpack_from("<i", body, position + 1)
        section = body[position + 1 : position + 1 + size]
        if kind == 0:
            command |= bson.decode(section)
        else:  # a sequence of documents, as the updates of a bulk write are
            end = section.index(b"\0", 4)
            command[section[4:end].decode()] = bson.decode_all(section[end + 1 :])
        position += 1 + size
    return struct.pack("<i", 0) + b"\0" + bson.encode(server.respond(command))
