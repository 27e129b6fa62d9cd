"""The conftest of OGX's tests of vector stores: stubs of its packages, and fixtures over OpenAI's SDK.

OGX attaches files before it responds, and stores chunks by a call of its own. Here, attaching waits for the end of the
ingestion, and each chunk is a file with its metadata as attributes.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import uuid4

import openai
import pytest
from openai import OpenAI
from openai.resources.vector_stores import VectorStores
from openai.resources.vector_stores.files import Files

from scripts.peer_suites.applicability import NotApplicable, skip_not_applicable

PROVIDER = "inline::sqlite-vec"
"""An engine of OGX whose tests include filters."""

NOT_APPLICABLE = (
    NotApplicable(
        r"invalid_vector_store|file_batch_error_handling", "an unknown id is 404, as at OpenAI, and 400 at OGX"
    ),
    NotApplicable(r"attach_files_on_creation", "an unknown file is an error, and a failed file at OGX"),
    NotApplicable(r"file_contents_with_extra_query", "OGX's own fields of a file's content"),
    NotApplicable(r"rewrite_query", "OGX's own message"),
    NotApplicable(r"contextual_chunking", "OGX's own chunking strategy"),
    NotApplicable(r"store_with_chunks", "a filter without a type"),
    NotApplicable(
        r"update_file\b", "changed attributes embed the chunks again: the file is `in_progress`, and `completed` at OGX"
    ),
)
"""Tests of OGX's own behaviour."""


def _stub(name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


for _package in ("ogx", "ogx.core", "ogx.providers", "ogx.providers.utils", "ogx.providers.utils.vector_io"):
    _stub(_package, __path__=[])
for _client in ("ogx_open_client", "llama_stack_client"):
    _stub(_client, BadRequestError=openai.BadRequestError)
_stub("ogx.core.library_client", OGXAsLibraryClient=type("OGXAsLibraryClient", (), {}))
_stub("ogx.log", get_logger=lambda name, category="": logging.getLogger(name))
_stub("ogx_api", ChunkMetadata=SimpleNamespace, EmbeddedChunk=SimpleNamespace, ExpiresAfter=dict)
_stub("ogx.providers.utils.vector_io.vector_utils", generate_chunk_id=lambda *_, **__: str(uuid4()))


def vector_provider_wrapper(test: Callable[..., None]) -> Callable[..., None]:
    """Leave a test as it is: there is one provider."""
    return test


@pytest.fixture(autouse=True)
def applicable(request: pytest.FixtureRequest) -> None:
    """Skip tests of OGX's own behaviour."""
    skip_not_applicable(request, NOT_APPLICABLE)


@pytest.fixture
def compat_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    """OpenAI's SDK, whose calls that attach files wait until the files are ingested."""
    attach, create = Files.create, VectorStores.create

    def attached(self: Files, vector_store_id: str, **options: Any) -> Any:
        file = attach(self, vector_store_id, **options)
        return self.poll(file.id, vector_store_id=vector_store_id, poll_interval_ms=50)

    def created(self: VectorStores, **options: Any) -> Any:
        store = create(self, **options)
        while store.file_counts.in_progress:
            time.sleep(0.05)
            store = self.retrieve(store.id)
        return store

    monkeypatch.setattr(Files, "create", attached)
    monkeypatch.setattr(VectorStores, "create", created)
    with OpenAI(base_url=os.environ["TEST_API_BASE_URL"], api_key="key", max_retries=0) as client:
        yield client


@pytest.fixture
def client_with_models(compat_client: OpenAI) -> SimpleNamespace:
    """The calls of OGX's own client that the tests use."""

    def insert(vector_store_id: str, chunks: list[Any]) -> None:
        for chunk in chunks:
            name = f"{chunk.metadata['document_id']}.txt"
            file = compat_client.files.create(file=(name, chunk.content.encode()), purpose="assistants")
            attributes = {key: value for key, value in chunk.metadata.items() if isinstance(value, str | float | bool)}
            compat_client.vector_stores.files.create(vector_store_id, file_id=file.id, attributes=attributes)

    providers = [SimpleNamespace(api="vector_io", provider_id=PROVIDER, provider_type=PROVIDER)]
    return SimpleNamespace(providers=SimpleNamespace(list=lambda: providers), vector_io=SimpleNamespace(insert=insert))


@pytest.fixture
def ogx_client() -> None:
    """Skip: the search modes of OGX are no options of OpenAI's SDK."""
    pytest.skip("needs OGX's own client")


@pytest.fixture
def embedding_model_id() -> str:
    """The model of the gateway."""
    return "builtin/wordllama"


@pytest.fixture
def embedding_dimension() -> int:
    """The dimension of its vectors."""
    return 256


@pytest.fixture
def vector_io_provider_id() -> str:
    """The engine, as OGX names it."""
    return PROVIDER


@pytest.fixture
def text_model_id() -> str:
    """No model: the tests need none."""
    return ""
