"""Stores of archives behind a `chromadb_url`: the service, and a plain Chroma server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import httpx

from ragstore_client import Client, Distance, NewDocument, to_float32


class ArchiveStore(Protocol):
    """A store of archives."""

    url: str

    def create(self, name: str, documents: Sequence[NewDocument], distance: Distance = "cosine") -> None:
        """Create a collection with documents."""
        ...

    def delete(self, name: str) -> None:
        """Delete a collection."""
        ...


class RagstoreArchiveStore:
    """The service."""

    def __init__(self, client: Client) -> None:
        self.url = client.base_url
        self._client = client

    def create(self, name: str, documents: Sequence[NewDocument], distance: Distance = "cosine") -> None:
        self._client.create_collection(name, distance=distance)
        if documents:
            self._client.upsert_documents(name, documents)

    def delete(self, name: str) -> None:
        self._client.delete_collection(name)


class ChromaArchiveStore:
    """A plain Chroma server, written through its own API, as the platform does."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._collections = f"{url}/api/v2/tenants/default_tenant/databases/default_database/collections"
        self._http = httpx.Client(timeout=30)

    def create(self, name: str, documents: Sequence[NewDocument], distance: Distance = "cosine") -> None:
        created = self._http.post(
            self._collections, json={"name": name, "configuration": {"hnsw": {"space": distance}}}
        ).json()
        if documents:
            records = {
                "ids": [document.id for document in documents],
                "documents": [document.text for document in documents],
                "embeddings": [list(to_float32(document.embedding)) for document in documents],
                "metadatas": [document.metadata for document in documents],
            }
            self._http.post(f"{self._collections}/{created['id']}/upsert", json=records).raise_for_status()

    def delete(self, name: str) -> None:
        self._http.delete(f"{self._collections}/{name}").raise_for_status()

    def close(self) -> None:
        self._http.close()
