"""The package as a whole: imports, public names, and agreement with the contract."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable

import msgspec
import pytest

import ragstore
import ragstore_client
import ragstore_client.context
from ragstore_client import AsyncClient, Client, NewDocument, _calls, _models
from ragstore_client._call import Call
from ragstore_client._calls import DocumentFilter, SimilaritySearch
from tests.support.pages import ROOT

CLIENT = ROOT / "clients/python"

HEAVY = ("numpy", "pydantic", "litestar", "chromadb", "langchain_core", "langgraph", "aiohttp", "ragstore")


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after some code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.process
def test_importing_loads_nothing_heavy() -> None:
    assert loaded("import ragstore_client").isdisjoint(HEAVY)


@pytest.mark.process
def test_importing_loads_little_beyond_httpx() -> None:
    more = loaded("import ragstore_client") - loaded("import httpx, msgspec")
    assert not {name for name in more if name.startswith(("asyncio", "ragstore_client.rag"))}
    assert len(more) < 50


@pytest.mark.process
def test_using_everything_but_langgraph_loads_nothing_heavy() -> None:
    everything = "import ragstore_client as r\nfor name in r.__all__: getattr(r, name)"
    assert loaded(everything).isdisjoint(HEAVY)


@pytest.mark.process
def test_the_retriever_loads_retrieval_from_plain_chroma_only_when_it_is_used() -> None:
    part = "ragstore_client.rag.chroma"
    assert part not in loaded("from ragstore_client import BackendDetector, RagstoreProvider, Retriever")
    assert part in loaded("from ragstore_client import registry")


@pytest.mark.process
def test_importing_the_client_loads_nothing_of_the_gateways_client() -> None:
    assert not {name for name in loaded("import ragstore_client") if name.startswith("ragstore_client.gateway")}
    more = loaded("import ragstore_client.gateway") - loaded("import ragstore_client")
    assert more == {"ragstore_client.gateway"}


@pytest.mark.process
def test_using_everything_of_the_gateways_client_loads_nothing_heavy() -> None:
    everything = "import ragstore_client.gateway as g\nfor name in g.__all__: getattr(g, name)"
    assert loaded(everything).isdisjoint(HEAVY)


@pytest.mark.process
def test_importing_the_context_library_loads_none_of_its_steps() -> None:
    more = loaded("import ragstore_client.context") - loaded("import ragstore_client")
    assert more == {"ragstore_client.context"}


@pytest.mark.process
def test_a_builder_over_a_client_loads_no_retriever() -> None:
    more = loaded("from ragstore_client.context import AsyncContextBuilder, ClientSource, check_citations")
    assert "ragstore_client.context._client_source" in more
    assert more.isdisjoint({"ragstore_client.rag._retriever", "ragstore_client.context._archive_source", "numpy"})


@pytest.mark.process
def test_using_everything_of_the_context_library_needs_no_further_package() -> None:
    everything = "import ragstore_client.context as c\nfor name in c.__all__: getattr(c, name)"
    more = loaded(everything) - loaded("import asyncio, httpx, msgspec")
    packages = {name.partition(".")[0] for name in more} - sys.stdlib_module_names
    assert packages <= {"ragstore_client", "httpcore", "anyio", "sniffio", "h11", "certifi", "idna"}


def test_all_public_names_of_the_context_library_are_there_and_documented() -> None:
    assert len(set(ragstore_client.context.__all__)) == len(ragstore_client.context.__all__)
    assert set(dir(ragstore_client.context)) == set(ragstore_client.context.__all__)
    for name in ragstore_client.context.__all__:
        member = getattr(ragstore_client.context, name)
        if inspect.isclass(member) or inspect.isfunction(member):
            assert inspect.getdoc(member), name


def test_all_public_names_are_there_and_listed() -> None:
    assert len(set(ragstore_client.__all__)) == len(ragstore_client.__all__)
    assert set(dir(ragstore_client)) == set(ragstore_client.__all__)
    for name in ragstore_client.__all__:
        assert getattr(ragstore_client, name) is not None
    with pytest.raises(AttributeError):
        _ = ragstore_client.nothing_of_the_kind  # type: ignore[attr-defined]  # what this is about


def public(kind: type) -> dict[str, Callable[..., object]]:
    return {name: member for name, member in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_both_clients_have_the_same_calls() -> None:
    sync, async_ = public(Client), public(AsyncClient)
    assert sync.keys() - async_.keys() == {"close"}
    assert async_.keys() - sync.keys() == {"aclose"}
    for name in sync.keys() - {"ingest", "close"}:
        assert inspect.signature(sync[name]).parameters == inspect.signature(async_[name]).parameters, name
    assert list(inspect.signature(sync["ingest"]).parameters) == list(inspect.signature(async_["ingest"]).parameters)


def test_every_public_name_has_a_docstring() -> None:
    for name in ragstore_client.__all__:
        member = getattr(ragstore_client, name)
        if inspect.isclass(member) or inspect.isfunction(member):
            assert inspect.getdoc(member), name


CALLS: list[Call[object]] = [
    _calls.create_collection(
        "abc",
        metadata={},
        embedding_provider="p",
        embedding_model="m",
        distance="l2",
        get_or_create=True,
        hnsw=_models.HnswParameters(ef_search=200),
    ),
    _calls.list_collections(limit=1, offset=1, counts=False),
    _calls.get_collection("abc"),
    _calls.update_metadata("abc", {}, merge=True),
    _calls.delete_collection("abc"),
    _calls.start_rebuild(
        "abc", hnsw=_models.HnswParameters(max_neighbors=2, ef_construction=10, ef_search=1), sample=1
    ),
    _calls.get_rebuild("abc"),
    _calls.metadata_values("abc", "field", limit=1, typed=True),
    _calls.add_documents("abc", b""),
    _calls.upsert_documents("abc", _calls.encode_documents([NewDocument(id="a", text="x", embedding=[1.0])])),
    _calls.list_documents("abc", DocumentFilter(include_embeddings=True), limit=1, offset=1, total=False),
    _calls.list_documents(
        "abc",
        DocumentFilter(where={"a": 1}, where_document={"$contains": "x"}, ids=["a"], include_embeddings=True),
        limit=1,
        offset=1,
        total=False,
    ),
    _calls.get_document("abc", "a:b/c", include_embeddings=True),
    _calls.update_documents("abc", {"a": {"n": 1}}, replace=False),
    _calls.delete_documents("abc", ids=["a"], where={"a": 1}),
    _calls.empty_collection("abc"),
    _calls.query(
        "abc",
        SimilaritySearch(embedding=[1.0], max_distance=1.0, min_score=0.0),
        DocumentFilter(where={"a": 1}, where_document={"$contains": "x"}, include_embeddings=True),
    ),
    _calls.map_collection("abc", points=1, where={"a": 1}, color="a"),
    _calls.query_collections(["abc"], SimilaritySearch(embedding=[1.0]), DocumentFilter()),
    _calls.info(),
    _calls.health(),
    _calls.probe("live"),
    _calls.probe("ready"),
    _calls.page("/metrics"),
    _calls.page("/openapi.json"),
    _calls.page("/docs"),
]

DONE_OTHERWISE = {
    ("GET", "/access"),  # for the page, which a person uses
    ("DELETE", "/collections/{collection_name}/documents"),  # as POST, so that no filter is part of a URL
    ("POST", "/collections/{collection_name}/documents/stream"),  # as batches
}
"""Operations of the contract that the client replaces by an equivalent one, or that no program needs."""

DESCRIBES_ITSELF = {("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/docs")}
"""Operations that the OpenAPI document need not list."""


@pytest.fixture(scope="module")
def openapi(store: Client) -> dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]]:
    document: dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]] = json.loads(store.openapi())
    return document


def operation(call: Call[object], paths: list[str]) -> tuple[str, str]:
    """The operation of the contract that a call carries out: the path that leaves least open."""
    fitting = [path for path in paths if re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", path), call.path)]
    return call.method, min(fitting, key=lambda path: path.count("{"), default=call.path)


def test_every_operation_of_the_contract_has_its_call(openapi: dict[str, dict[str, dict[str, object]]]) -> None:
    paths = list(openapi["paths"])
    offered = {(method.upper(), path) for path in paths for method in openapi["paths"][path] if method != "parameters"}
    called = {operation(call, paths) for call in CALLS}
    assert offered - called == DONE_OTHERWISE
    assert called - offered <= DESCRIBES_ITSELF


def test_parameters_are_those_of_the_contract(
    openapi: dict[str, dict[str, dict[str, dict[str, list[dict[str, str]]]]]],
) -> None:
    for call in CALLS:
        method, path = operation(call, list(openapi["paths"]))
        known = openapi["paths"].get(path, {}).get(method.lower(), {}).get("parameters", [])
        assert {name for name, _ in call.params} <= {parameter["name"] for parameter in known}, path


RESPONSE_MODELS = (
    _models.Collection,
    _models.CollectionCreated,
    _models.CollectionDeleted,
    _models.CollectionError,
    _models.CollectionMap,
    _models.CollectionPage,
    _models.DeleteAllResult,
    _models.DeleteResult,
    _models.Document,
    _models.DocumentPage,
    _models.Health,
    _models.HealthDetails,
    _models.Match,
    _models.MetadataUpdated,
    _models.MetadataValues,
    _models.MultiQueryResults,
    _models.Probe,
    _models.QueryResults,
    _models.ServiceInfo,
    _models.WriteResult,
)


@pytest.mark.parametrize("model", RESPONSE_MODELS, ids=lambda model: model.__name__)
def test_response_models_have_the_fields_of_the_contract(
    openapi: dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]], model: type[msgspec.Struct]
) -> None:
    properties = openapi["components"]["schemas"][model.__name__]["properties"]
    assert {field.encode_name for field in msgspec.structs.fields(model)} <= properties.keys() | {"embedding"}


def test_the_license_is_part_of_the_distribution() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())
    assert project["project"]["license-files"] == ["LICENSE"]
    assert "/LICENSE" in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert ragstore_client.__version__ == ragstore.__version__
