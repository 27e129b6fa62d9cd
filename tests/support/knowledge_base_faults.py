"""Faulty configurations of knowledge bases, with the path of each fault."""

from __future__ import annotations

from typing import Final


def web_source(**web: object) -> dict[str, object]:
    """A source that reads a website, with fields of its `web`."""
    return {"name": "site", "type": "web", "web": {"startUrl": "https://docs.example/", **web}}


def upload_source(**fields: object) -> dict[str, object]:
    """A source of uploaded files, with fields."""
    return {"name": "files", "type": "upload", **fields}


KNOWLEDGE_BASE_FAULTS: Final[list[tuple[dict[str, object], str]]] = [
    ({"chunksize": 5}, "$.chunksize"),
    ({"name": "handbook\n"}, "$.name"),
    ({"chunkSize": 0}, "$.chunkSize"),
    ({"chunkSize": 100_001}, "$.chunkSize"),
    ({"chunkSize": 64, "chunkOverlap": 64}, "$.chunkOverlap"),
    ({"chunkSize": 10}, "$.chunkOverlap"),
    ({"chunkOverlap": -1}, "$.chunkOverlap"),
    ({"chunkSize": 5.5}, "$.chunkSize"),
    ({"chunkSize": "512"}, "$.chunkSize"),
    ({"chunkStrategy": "pages"}, "$.chunkStrategy"),
    ({"chunkUnit": "words"}, "$.chunkUnit"),
    ({"minScore": -0.1}, "$.minScore"),
    ({"minScore": 1.1}, "$.minScore"),
    ({"retrieval": "fuzzy"}, "$.retrieval"),
    ({"keywordWeight": -0.1}, "$.keywordWeight"),
    ({"keywordWeight": 1.1}, "$.keywordWeight"),
    ({"maxResults": 0}, "$.maxResults"),
    ({"maxResults": 1001}, "$.maxResults"),
    ({"maxResults": None}, "$.maxResults"),
    ({"name": ""}, "$.name"),
    ({"name": " x"}, "$.name"),
    ({"name": "x\0"}, "$.name"),
    ({"name": "x" * 129}, "$.name"),
    ({"name": None}, "$.name"),
    ({"description": "x" * 1025}, "$.description"),
    ({"embeddingProvider": "onnx"}, "$.embeddingProvider"),
    ({"embeddingProvider": "openai"}, "$.embeddingParameters.apiKey"),
    ({"embeddingProvider": "local", "embeddingParameters": {"apiKey": "x"}}, "$.embeddingParameters.apiKey"),
    ({"embeddingProvider": "vertex"}, "$.embeddingParameters.project"),
    ({"embeddingParameters": []}, "$.embeddingParameters"),
    ({"storeType": "milvus"}, "$.storeType"),
    ({"storeType": "pgvector"}, "$.storeParameters.password"),
    ({"storeType": "in-memory", "storeParameters": {"host": "x"}}, "$.storeParameters.host"),
    ({"storeType": "qdrant", "storeParameters": {"port": 0}}, "$.storeParameters.port"),
    ({"sources": {}}, "$.sources"),
    ({"sources": [{"name": f"s{number}", "type": "upload"} for number in range(51)]}, "$.sources"),
    ({"sources": [{"type": "upload"}]}, "$.sources[0].name"),
    ({"sources": [{"name": "a/b", "type": "upload"}]}, "$.sources[0].name"),
    ({"sources": [{"name": "..", "type": "upload"}]}, "$.sources[0].name"),
    ({"sources": [{"name": "a", "type": "ftp"}]}, "$.sources[0].type"),
    ({"sources": [{"name": "a", "type": "upload", "colour": 1}]}, "$.sources[0].colour"),
    ({"sources": [{"name": "a"}]}, "$.sources[0].web"),
    ({"sources": [{"name": "a", "type": "upload", "web": {"startUrl": "https://a.example/"}}]}, "$.sources[0].web"),
    ({"sources": [web_source() | {"upload": {}}]}, "$.sources[0].upload"),
    ({"sources": [{"name": "a", "type": "web", "web": {}}]}, "$.sources[0].web.startUrl"),
    ({"sources": [web_source(pathPrefix="docs/")]}, "$.sources[0].web.pathPrefix"),
    ({"sources": [web_source(pathPrefix="/docs?")]}, "$.sources[0].web.pathPrefix"),
    ({"sources": [web_source(maxDepth=-1)]}, "$.sources[0].web.maxDepth"),
    ({"sources": [web_source(maxDepth=21)]}, "$.sources[0].web.maxDepth"),
    ({"sources": [web_source(maxPages=0)]}, "$.sources[0].web.maxPages"),
    ({"sources": [web_source(maxPages=50_001)]}, "$.sources[0].web.maxPages"),
    ({"sources": [web_source(maxPages=10.5)]}, "$.sources[0].web.maxPages"),
    ({"sources": [web_source(requestDelayMs=60_001)]}, "$.sources[0].web.requestDelayMs"),
    ({"sources": [web_source(timeoutSeconds=0)]}, "$.sources[0].web.timeoutSeconds"),
    ({"sources": [web_source(timeoutSeconds=301)]}, "$.sources[0].web.timeoutSeconds"),
    ({"sources": [web_source(excludePatterns=[""])]}, "$.sources[0].web.excludePatterns[0]"),
    ({"sources": [web_source(excludePatterns=["a", "b" * 257])]}, "$.sources[0].web.excludePatterns[1]"),
    ({"sources": [web_source(excludePatterns=["*"] * 101)]}, "$.sources[0].web.excludePatterns"),
    ({"sources": [web_source(sitemaps=["https://a.example/s.xml"] * 51)]}, "$.sources[0].web.sitemaps"),
    ({"sources": [upload_source(settings={"maxContentLength": 0})]}, "$.sources[0].settings.maxContentLength"),
    ({"sources": [upload_source(settings={"maxBytesPerPage": 0})]}, "$.sources[0].settings.maxBytesPerPage"),
    ({"sources": [upload_source(settings={"maxSegmentsPerRun": 0})]}, "$.sources[0].settings.maxSegmentsPerRun"),
    (
        {"sources": [upload_source(settings={"tombstoneAfterMissedRuns": 0})]},
        "$.sources[0].settings.tombstoneAfterMissedRuns",
    ),
    ({"sources": [upload_source(settings={"timeBudgetMinutes": 1441})]}, "$.sources[0].settings.timeBudgetMinutes"),
    ({"sources": [upload_source(upload={"maxFiles": 0})]}, "$.sources[0].upload.maxFiles"),
    ({"sources": [upload_source(upload={"maxFileBytes": 0})]}, "$.sources[0].upload.maxFileBytes"),
    ({"sources": [upload_source(upload={"maxTotalBytes": -1})]}, "$.sources[0].upload.maxTotalBytes"),
]
