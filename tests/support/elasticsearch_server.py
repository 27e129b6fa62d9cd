"""A server with the part of Elasticsearch's documented REST interface that the gateway uses.

It evaluates queries as the documentation describes them, over documents in memory, and rejects everything else. It is
no Elasticsearch: the docs of the gateway say so. Pages of elastic.co/docs/reference/elasticsearch that it follows:

- `rest-apis/refresh-parameter`: searches, counts and deletions by query find documents since the last refresh.
- `docs-delete-by-query`: a document that changed since the deletion began is a version conflict, and stays.
- `mapping-reference/dense-vector`: at most 4,096 dimensions; `cosine` rejects zeros.
- `mapping-reference/ignore-above`: a longer term than 32,766 bytes rejects its document.
- `configuration-reference/search-settings`: at most 30 levels of queries (`indices.query.bool.max_nested_depth`).
- `configuration-reference/networking-settings`: a request has at most 100 MB (`http.max_content_length`).
- `rest-apis/compatibility`: the media types of a request name one version: the server's, or the previous one.
- `index-settings/index-modules`: at most 65,536 terms (`index.max_terms_count`) and 10,000 hits
  (`index.max_result_window`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, TypeAlias

import numpy as np
from aiohttp import web

Document: TypeAlias = dict[str, Any]

MAX_QUERY_DEPTH = 30
MAX_TERMS = 65_536
MAX_TERM_BYTES = 32_766
MAX_WINDOW = 10_000
MAX_DIMENSION = 4096

_PRODUCT = {"X-Elastic-Product": "Elasticsearch"}


class _Rejected(Exception):
    def __init__(self, status: int, kind: str) -> None:
        self.status = status
        self.kind = kind


@dataclass
class _Index:
    mappings: Mapping[str, Any]
    aliases: set[str]
    documents: dict[str, Document] = field(default_factory=dict)
    visible: dict[str, Document] = field(default_factory=dict)

    def refresh(self) -> None:
        self.visible = dict(self.documents)


@dataclass
class ElasticsearchServer:
    """A running server.

    Attributes:
        url: its address.
        authorizations: the values of the header `Authorization` that requests were sent with.
        requests: the requests so far: method, path with its query, and body.
        major: major version.
        product: whether responses name the product.
        fails_after_write: whether the next bulk request is stored and fails before its refresh.
        conflicts: number of documents that change while the next deletion runs.
        failed_shards: number of shards that cannot be counted.
    """

    url: str = ""
    authorizations: set[str] = field(default_factory=set)
    requests: list[tuple[str, str, object]] = field(default_factory=list)
    major: int = 9
    product: bool = True
    fails_after_write: bool = False
    conflicts: int = 0
    failed_shards: int = 0
    _indexes: dict[str, _Index] = field(default_factory=dict)

    def put(self, index: str, id_: str, document: Document) -> None:
        """Store a document as another program.

        Args:
            index: name of an index or an alias.
        """
        found = self._index(index)
        found.documents[id_] = document
        found.refresh()

    async def handle(self, request: web.Request) -> web.Response:
        """Respond to a request."""
        self.authorizations.add(request.headers.get("Authorization", ""))
        text = await request.text()
        bulk = request.path.endswith("/_bulk")
        body: Any = [json.loads(line) for line in text.splitlines()] if bulk else json.loads(text or "{}")
        self.requests.append((request.method, request.path_qs, body))
        try:
            self._check_media_types(request)
            response = self._respond(request.method, request.path.strip("/").split("/"), dict(request.query), body)
            return web.json_response(response, headers=_PRODUCT if self.product else {})
        except _Rejected as error:
            cause = {"type": error.kind, "reason": "a reason that may contain what was sent"}
            failed = {"error": {"root_cause": [cause], **cause}, "status": error.status}
            return web.json_response(failed, status=error.status, headers=_PRODUCT)

    def _check_media_types(self, request: web.Request) -> None:
        # Without a body, only the media type of the response counts.
        names = ("Accept", "Content-Type") if request.body_exists else ("Accept",)
        given = [request.headers.get(name, "") for name in names]
        versions = {value.partition("compatible-with=")[2] for value in given}
        if len(versions) != 1 or not versions <= {"", str(self.major), str(self.major - 1)}:
            raise _Rejected(400, "media_type_header_exception")

    def _respond(self, method: str, path: list[str], query: dict[str, str], body: Any) -> object:
        match method, path:
            case "PUT", [name]:
                return self._create(name, body)
            case "DELETE", [name]:
                if name not in self._indexes:
                    raise _Rejected(404, "index_not_found_exception")
                del self._indexes[name]
                return {"acknowledged": True}
            case "GET", [name, "_mapping"]:
                return {name: {"mappings": self._index(name).mappings}}
            case "PUT", [name, "_bulk"]:
                return self._bulk(name, query, body)
            case "POST", [name, "_search"]:
                return self._search(self._index(name), body)
            case "POST", [name, "_mget"]:
                documents = self._index(name).documents
                return {
                    "docs": [
                        {"_index": "i", "_id": id_, "found": True, "_source": documents[id_]}
                        if id_ in documents
                        else {"_index": "i", "_id": id_, "found": False}
                        for id_ in body["ids"]
                    ]
                }
            case "POST", [name, "_count"]:
                found = _selected(self._index(name), body["query"])
                shards = {"total": 2, "successful": 2 - self.failed_shards, "skipped": 0, "failed": self.failed_shards}
                return {"count": len(found), "_shards": shards}
            case "POST", [name, "_refresh"]:
                self._index(name).refresh()
                return {"_shards": {"total": 1, "successful": 1, "failed": 0}}
            case "POST", [name, "_delete_by_query"]:
                return self._delete(self._index(name), query, body)
        raise _Rejected(400, "illegal_argument_exception")

    def _create(self, name: str, body: Any) -> object:
        if name in self._indexes:
            raise _Rejected(400, "resource_already_exists_exception")
        if set(body) - {"aliases", "mappings", "settings"}:
            raise _Rejected(400, "parse_exception")
        vector = body["mappings"]["properties"]["vector"]
        if vector["dims"] > MAX_DIMENSION or name != name.lower() or len(name) > 255:
            raise _Rejected(400, "mapper_parsing_exception")
        self._indexes[name] = _Index(body["mappings"], set(body["aliases"]))
        return {"acknowledged": True, "shards_acknowledged": True, "index": name}

    def _index(self, name: str) -> _Index:
        for index_name, index in self._indexes.items():
            if name == index_name or name in index.aliases:
                return index
        raise _Rejected(404, "index_not_found_exception")

    def _bulk(self, name: str, query: dict[str, str], lines: list[Any]) -> object:
        items: list[object] = []
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            id_ = action["index"]["_id"]
            outcome: dict[str, object] = {"_index": name, "_id": id_, "status": 201, "result": "created"}
            try:
                self._put(name, id_, document, require_alias=query.get("require_alias") == "true")
            except _Rejected as error:
                outcome = {"_index": name, "_id": id_, "status": error.status, "error": {"type": error.kind}}
            items.append({"index": outcome})
        if self.fails_after_write:
            self.fails_after_write = False
            raise _Rejected(503, "unavailable_shards_exception")
        if query.get("refresh") in ("true", "wait_for"):
            for index in self._indexes.values():
                index.refresh()
        errors = any("error" in next(iter(item.values())) for item in items if isinstance(item, dict))
        return {"took": 1, "errors": errors, "items": items}

    def _put(self, name: str, id_: str, document: Document, *, require_alias: bool) -> None:
        if require_alias and not any(name in index.aliases for index in self._indexes.values()):
            raise _Rejected(404, "index_not_found_exception")
        index = self._index(name)
        if len(document["vector"]) != index.mappings["properties"]["vector"]["dims"]:
            raise _Rejected(400, "document_parsing_exception")
        terms = [f"{key}\0{value}" for key, value in document["values"].items()]
        if any(len(term.encode()) > MAX_TERM_BYTES for term in terms):
            raise _Rejected(400, "illegal_argument_exception")
        index.documents[id_] = document

    def _delete(self, index: _Index, query: dict[str, str], body: Any) -> object:
        found = _selected(index, body["query"])
        unchanged = [id_ for id_, each in found.items() if index.documents.get(id_) is each][self.conflicts :]
        self.conflicts = 0
        conflicts = len(found) - len(unchanged)
        if conflicts and query.get("conflicts") != "proceed":
            raise _Rejected(409, "version_conflict_engine_exception")
        for id_ in unchanged:
            del index.documents[id_]
        if query.get("refresh") == "true":
            index.refresh()
        counts = {"total": len(found), "deleted": len(unchanged), "version_conflicts": conflicts}
        return {"took": 1, "timed_out": False, "failures": [], **counts}

    @staticmethod
    def _search(index: _Index, body: Any) -> object:
        knn = body["knn"]
        if not knn["k"] <= knn["num_candidates"] <= MAX_WINDOW or body["size"] > MAX_WINDOW:
            raise _Rejected(400, "illegal_argument_exception")
        dimension = index.mappings["properties"]["vector"]["dims"]
        query = np.array(knn["query_vector"], dtype=np.float32)
        if len(query) != dimension:
            raise _Rejected(400, "illegal_argument_exception")
        found = _selected(index, knn.get("filter", {"match_all": {}}))
        scored = [(id_, _score(float(query @ np.array(found[id_]["vector"], dtype=np.float32)))) for id_ in found]
        # Equal scores have no order by id.
        scored.reverse()
        nearest = sorted(scored, key=lambda pair: -pair[1])[: min(knn["k"], body["size"])]
        includes = body["_source"]["includes"] if "_source" in body else list(found[nearest[0][0]]) if nearest else []
        hits = [
            {
                "_index": "i",
                "_id": id_,
                "_score": score,
                "_source": {name: found[id_][name] for name in includes if name in found[id_]},
            }
            for id_, score in nearest
        ]
        return {
            "took": 1,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {"total": {"value": len(hits), "relation": "eq"}, "max_score": 1.0, "hits": hits},
        }


@asynccontextmanager
async def elasticsearch_server(tls: SSLContext | None = None) -> AsyncIterator[ElasticsearchServer]:
    """A server on a free port.

    Args:
        tls: its certificate; None for no encryption.
    """
    server = ElasticsearchServer()
    app = web.Application(client_max_size=100 << 20)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def _score(product: float) -> float:
    """The score of `max_inner_product`, as documented."""
    return float(np.float32(1 / (1 - product) if product < 0 else 1 + product))


def _selected(index: _Index, query: Any) -> dict[str, Document]:
    if _depth(query) > MAX_QUERY_DEPTH:
        raise _Rejected(400, "x_content_parse_exception")
    if "ids" in query:
        return {id_: index.visible[id_] for id_ in query["ids"]["values"] if id_ in index.visible}
    return {id_: document for id_, document in index.visible.items() if _matches(query, document)}


def _depth(query: Any) -> int:
    parts = [part for part in query.get("bool", {}).values() if isinstance(part, list)]
    return 1 + max((_depth(each) for part in parts for each in part), default=0)


def _matches(query: Any, document: Document) -> bool:
    [(kind, content)] = query.items()
    match kind:
        case "match_all":
            return True
        case "match_none":
            return False
        case "terms":
            [(path, tokens)] = content.items()
            if len(tokens) > MAX_TERMS:
                raise _Rejected(400, "illegal_argument_exception")
            return _value(path, document, "values") in tokens
        case "range":
            [(path, bounds)] = content.items()
            value = _value(path, document, "numbers")
            return value is not None and all(_holds(float(value), *bound) for bound in bounds.items())
        case "bool":
            return _matches_bool(content, document)
    raise _Rejected(400, "parsing_exception")


def _matches_bool(content: Any, document: Document) -> bool:
    unknown = set(content) - {"filter", "must_not", "should", "minimum_should_match"}
    if unknown:
        raise _Rejected(400, "parsing_exception")
    if "should" in content and sum(_matches(each, document) for each in content["should"]) < content.get(
        "minimum_should_match", 1
    ):
        return False
    return all(_matches(each, document) for each in content.get("filter", [])) and not any(
        _matches(each, document) for each in content.get("must_not", [])
    )


def _value(path: str, document: Document, root: str) -> Any:
    """The value of a path. A dot separates fields, and each field of the mapping has one type."""
    names = path.split(".")
    if len(names) != 2 or names[0] != root:
        raise _Rejected(400, "query_shard_exception")
    return document[root].get(names[1])


def _holds(value: float, operator: str, bound: float) -> bool:
    match operator:
        case "gt":
            return value > bound
        case "gte":
            return value >= bound
        case "lt":
            return value < bound
        case "lte":
            return value <= bound
    raise _Rejected(400, "parsing_exception")
