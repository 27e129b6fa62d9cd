"""Contexts from the real service: scopes of sessions, and every way in which retrieval fails."""

from __future__ import annotations

import asyncio
import functools
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from ragstore_client import (
    AsyncClient,
    Client,
    Embedding,
    EmbeddingsClient,
    LoopThread,
    NewDocument,
    RagArchiveConfig,
    RagConfig,
    RagSettings,
    Retriever,
)
from ragstore_client.context import (
    ArchiveSource,
    AsyncContextBuilder,
    ChatContext,
    ClientSource,
    ContextBuilder,
    ContextSettings,
    Scope,
    session_scopes,
)
from tests.client.fake_servers import FakeEmbeddings, LocalServer, Request, Response, delaying_proxy, vector_of
from tests.support.keyed_services import keyed_service
from tests.support.servers import Served, free_port

T = TypeVar("T")

MODEL = "jinaai/jina-embeddings-v2-base-de"
QUESTION = "When is the boiler serviced?"
SETTINGS = ContextSettings(timeout_seconds=5)


async def embed(text: str) -> Embedding:
    return vector_of(text)


def document(name: str, text: str, **metadata: str | int) -> NewDocument:
    return NewDocument(id=name, text=text, embedding=vector_of(text), metadata={"file_name": f"{name}.pdf", **metadata})


@pytest.fixture
def manuals(store: Client, client_collection: str) -> str:
    """A collection with documents of two sessions, and of all of them."""
    store.upsert_documents(
        client_collection,
        [
            document("a", "The boiler is serviced in May, says session a.", session_id="a", chunk_index=0),
            document("b", "The boiler is serviced in June, says session b.", session_id="b", chunk_index=0),
            document("all", "The boiler is serviced every year.", session_id="GLOBAL", chunk_index=4),
            document("rent", "Parking costs extra", session_id="GLOBAL", chunk_index=1),
        ],
    )
    return client_collection


def run(work: Callable[[AsyncContextBuilder], Awaitable[T]], url: str, *scopes: Scope, **options: str) -> T:
    """Do something with a builder, and check that it leaves no task behind."""

    async def main() -> T:
        async with AsyncClient(url, **options) as client:  # type: ignore[arg-type]  # the test's own options
            result = await work(AsyncContextBuilder(ClientSource(client, embed), settings=SETTINGS, scopes=scopes))
            assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(main())


def build(url: str, *scopes: Scope, session_id: str | None = None, **options: str) -> ChatContext:
    return run(lambda builder: builder.build(QUESTION, session_id=session_id), url, *scopes, **options)


def ids(context: ChatContext) -> set[str]:
    return {passage.id for passage in context.passages}


def test_a_session_sees_its_documents_and_those_of_all_sessions(client_service: Served, manuals: str) -> None:
    scopes = session_scopes([manuals])
    assert ids(build(client_service.url, *scopes, session_id="a")) == {"a", "all"}
    assert ids(build(client_service.url, *scopes, session_id="b")) == {"b", "all"}
    assert ids(build(client_service.url, *scopes, session_id="c")) == {"all"}
    assert ids(build(client_service.url, *scopes)) == {"all"}


@pytest.mark.parametrize("session_id", ['{"$ne": ""}', "$ne", "{session_id}", "a' OR '1", "*", "a\x00", "A", "a "])
def test_a_session_id_that_looks_like_a_filter_selects_nothing_else(
    client_service: Served, manuals: str, session_id: str
) -> None:
    assert ids(build(client_service.url, *session_scopes([manuals]), session_id=session_id)) == {"all"}


def test_session_and_global_documents_of_one_collection_are_one_request(client_service: Served, manuals: str) -> None:
    with delaying_proxy(client_service.url, "no such collection", 0) as proxy:
        context = build(proxy.url, *session_scopes([manuals]), session_id="a")
    assert ids(context) == {"a", "all"}
    assert [request.path for request in proxy.requests] == ["/query"]


def test_citations_and_similarities_are_those_of_the_documents(client_service: Served, manuals: str) -> None:
    context = build(client_service.url, *session_scopes([manuals]), session_id="a")
    assert set(context.citations) == {"a.pdf#0", "all.pdf#4"}
    similarities = [passage.similarity for passage in context.passages]
    assert all(similarity is not None and 0.2 <= similarity <= 1 for similarity in similarities)
    assert context.passages[0].collection == manuals


def test_the_synchronous_builder_works_with_either_client(client_service: Served, manuals: str) -> None:
    thread = LoopThread()
    with Client(client_service.url) as client:
        asynchronous = AsyncClient(client_service.url)
        for each in (client, asynchronous):
            source = ClientSource(each, embed, collections=[manuals])
            builder = ContextBuilder(source, settings=SETTINGS, scopes=session_scopes(), loop_thread=thread)
            assert ids(builder.build(QUESTION, session_id="a")) == {"a", "all"}
        thread.run(asynchronous.aclose())


def test_an_embedder_may_be_a_plain_function_or_an_endpoint(
    client_service: Served, manuals: str, embeddings: tuple[FakeEmbeddings, LocalServer]
) -> None:
    endpoint = functools.partial(EmbeddingsClient(embeddings[1].url).embed, model=MODEL)

    async def main() -> list[ChatContext]:
        async with AsyncClient(client_service.url) as client:
            sources = [ClientSource(client, embed, collections=[manuals]) for embed in (vector_of, endpoint)]
            return [await AsyncContextBuilder(source, settings=SETTINGS).build(QUESTION) for source in sources]

    first, second = asyncio.run(main())
    assert ids(first) == ids(second) == {"a", "b", "all"}


def test_a_question_is_embedded_once_for_all_scopes(
    client_service: Served, manuals: str, embeddings: tuple[FakeEmbeddings, LocalServer]
) -> None:
    endpoint = functools.partial(EmbeddingsClient(embeddings[1].url).embed, model=MODEL)

    async def main() -> None:
        async with AsyncClient(client_service.url) as client:
            source = ClientSource(client, endpoint)
            scopes = [Scope(collections=[manuals], top_k=number) for number in (1, 2, 3)]
            assert (await AsyncContextBuilder(source, settings=SETTINGS, scopes=scopes).build(QUESTION)).used

    asyncio.run(main())
    assert len(embeddings[1].requests) == 1


def test_mmr_works_with_the_vectors_of_the_service(client_service: Served, manuals: str, store: Client) -> None:
    store.upsert_documents(manuals, [document("twin", "The boiler is serviced every year!", session_id="GLOBAL")])

    async def work(builder: AsyncContextBuilder) -> ChatContext:
        return await builder.build(QUESTION, settings=SETTINGS.override(diversity=0.9, similarity_threshold=-1))

    context = run(work, client_service.url, Scope(collections=[manuals]))
    assert context.failures == []
    assert len(context.passages) == 5
    assert {passage.id for passage in context.passages[:2]} != {"all", "twin"}


def test_headers_of_a_call_reach_the_service(client_service: Served, manuals: str) -> None:
    with delaying_proxy(client_service.url, "no such collection", 0) as proxy:
        headers = {"x-request-id": "r-4711", "traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
        run(lambda builder: builder.build(QUESTION, headers=headers), proxy.url, Scope(collections=[manuals]))
    assert headers.items() <= proxy.requests[0].headers.items()


def test_an_empty_collection_is_no_match(client_service: Served, client_collection: str) -> None:
    context = build(client_service.url, Scope(collections=[client_collection]))
    assert (context.used, context.reason, context.failures) == (False, "no_match", [])


def test_a_missing_collection_fails_and_another_one_is_used(client_service: Served, manuals: str) -> None:
    missing = build(client_service.url, Scope(collections=["repo_missing"]))
    assert (missing.reason, missing.failures[0].error) == ("failed", "NotFound (404)")
    both = build(client_service.url, Scope(collections=["repo_missing", manuals], name="both"))
    assert ids(both) == {"a", "b", "all"}
    assert [(failure.step, failure.reason, failure.error) for failure in both.failures] == [("both", "failed", "404")]


def test_a_slow_collection_costs_only_its_own_results(
    client_service: Served, manuals: str, store: Client, archive_name: str
) -> None:
    store.create_collection(f"{archive_name}-slow")
    with delaying_proxy(client_service.url, f"{archive_name}-slow", 12) as proxy:
        scope = Scope(collections=[manuals, f"{archive_name}-slow"])
        settings = SETTINGS.override(timeout_seconds=4)
        context = run(lambda builder: builder.build(QUESTION, settings=settings), proxy.url, scope)
    store.delete_collection(f"{archive_name}-slow")
    assert ids(context) == {"a", "b", "all"}
    assert [failure.reason for failure in context.failures] == ["timeout"]


def test_a_store_that_is_down_is_a_failure() -> None:
    context = build(f"http://127.0.0.1:{free_port()}", Scope(collections=["manuals"]))
    assert (context.used, context.reason, context.failures[0].error) == (False, "failed", "ConnectFailed")
    assert context.messages() == [{"role": "user", "content": QUESTION}]


@pytest.mark.process
def test_a_wrong_key_is_a_failure(tmp_path: Path) -> None:
    with keyed_service(tmp_path, {"reader": {"role": "reader"}}) as service:
        context = build(service.served.url, Scope(collections=["manuals"]), api_key="wrong")
    assert (context.reason, context.failures[0].error) == ("failed", "Unauthorized (401)")


@pytest.mark.parametrize("fault", ["500", "drop", "no json", "too few", "not finite"])
def test_an_embedder_that_fails_is_a_failure(
    client_service: Served, manuals: str, embeddings: tuple[FakeEmbeddings, LocalServer], fault: str
) -> None:
    embeddings[0].fault = fault
    endpoint = functools.partial(EmbeddingsClient(embeddings[1].url).embed, model=MODEL)

    async def main() -> ChatContext:
        async with AsyncClient(client_service.url) as client:
            return await AsyncContextBuilder(ClientSource(client, endpoint, collections=[manuals])).build(QUESTION)

    context = asyncio.run(main())
    assert (context.used, context.reason, context.failures[0].error) == (False, "failed", "EmbeddingFailed")


def test_an_embedder_that_reaches_its_own_time_limit_is_a_timeout(
    client_service: Served, manuals: str, embeddings: tuple[FakeEmbeddings, LocalServer]
) -> None:
    embeddings[0].fault = "slow"
    endpoint = functools.partial(EmbeddingsClient(embeddings[1].url, timeout=0.2).embed, model=MODEL)

    async def main() -> ChatContext:
        async with AsyncClient(client_service.url) as client:
            return await AsyncContextBuilder(ClientSource(client, endpoint, collections=[manuals])).build(QUESTION)

    context = asyncio.run(main())
    assert (context.used, context.reason, context.failures[0].error) == (False, "timeout", "EmbeddingTimeout")


@pytest.mark.parametrize("embed_timeout", [0.2, 60.0])
def test_archives_whose_query_is_not_embedded_in_time_are_a_timeout(
    embeddings: tuple[FakeEmbeddings, LocalServer], embed_timeout: float
) -> None:
    """The second limit is beyond the retrieval's, from which the retriever derives one of its own."""
    embeddings[0].fault = "slow"
    archive = RagArchiveConfig(name="a", collection_name="a", chromadb_url="http://127.0.0.1:9")
    retriever = Retriever(
        RagConfig(archives=[archive]),
        settings=RagSettings(embeddings_url=embeddings[1].url, embed_timeout=embed_timeout),
    )
    source = ArchiveSource(retriever)
    settings = ContextSettings(timeout_seconds=1)
    context = asyncio.run(AsyncContextBuilder(source, settings=settings).build(QUESTION))
    assert (context.used, context.reason, context.failures[0].error) == (False, "timeout", "EmbeddingTimeout")


def test_a_response_that_is_not_the_contract_s_is_a_failure() -> None:
    def respond(_: Request) -> Response:
        return Response(200, {"results": "none"})

    with LocalServer(respond) as server:
        assert build(server.url, Scope(collections=["manuals"])).failures[0].error == "UnexpectedResponse (200)"


def test_a_match_whose_score_is_not_finite_counts_as_one_without_a_similarity() -> None:
    match: dict[str, object] = {
        "id": "a",
        "text": "The boiler.",
        "metadata": {},
        "distance": None,
        "score": None,
        "collection": "manuals",
    }

    def respond(_: Request) -> Response:
        return Response(200, {"results": [match], "count": 1, "collection_metadata": {}})

    with LocalServer(respond) as server:
        context = build(server.url, Scope(collections=["manuals"]))
    assert [(passage.id, passage.similarity) for passage in context.passages] == [("a", None)]


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        yield server


def url_of(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}"


@asynccontextmanager
async def hung_builder(server: socket.socket, hangs: str, seconds: float) -> AsyncIterator[AsyncContextBuilder]:
    endpoint = functools.partial(EmbeddingsClient(url_of(server)).embed, model=MODEL)
    async with AsyncClient(url_of(server)) as client:
        source = ClientSource(client, endpoint if hangs == "embedder" else embed, collections=["manuals"])
        yield AsyncContextBuilder(source, settings=ContextSettings(timeout_seconds=seconds))


@pytest.mark.parametrize("hangs", ["store", "embedder"])
def test_a_server_that_hangs_is_a_timeout_within_the_deadline_and_its_connection_is_closed(
    silent: socket.socket, hangs: str
) -> None:
    async def main() -> tuple[ChatContext, float]:
        async with hung_builder(silent, hangs, 0.3) as builder:
            started = time.monotonic()
            context = await builder.build(QUESTION)
            seconds = time.monotonic() - started
            assert asyncio.all_tasks() == {asyncio.current_task()}
            await asyncio.to_thread(until_closed, silent)
        return context, seconds

    context, seconds = asyncio.run(main())
    assert (context.used, context.reason) == (False, "timeout")
    assert 0.25 <= seconds < 10  # far below the time limits of the client; on a virtual clock it is exact


def test_a_cancelled_build_closes_its_connection(silent: socket.socket) -> None:
    async def main() -> None:
        async with hung_builder(silent, "store", 60) as builder:
            task = asyncio.create_task(builder.build(QUESTION))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() == {asyncio.current_task()}
            await asyncio.to_thread(until_closed, silent)

    asyncio.run(main())


def test_the_synchronous_builder_keeps_its_deadline_with_a_synchronous_client_that_hangs(silent: socket.socket) -> None:
    with Client(url_of(silent)) as client:
        source = ClientSource(client, vector_of, collections=["manuals"])
        started = time.monotonic()
        context = ContextBuilder(source, settings=ContextSettings(timeout_seconds=0.3)).build(QUESTION)
    assert context.reason == "timeout"
    assert time.monotonic() - started < 10  # far below the time limits of the client


def until_closed(server: socket.socket) -> None:
    """Wait until the peer of the first connection has closed it."""
    connection, _ = server.accept()
    with connection:
        connection.settimeout(5)
        while connection.recv(65536):
            pass


def test_a_retriever_is_a_source_of_all_layers(handbook: RagArchiveConfig, settings: RagSettings) -> None:
    retriever = Retriever(RagConfig(archives=[handbook]), settings=settings)
    builder = ContextBuilder(retriever, settings=SETTINGS, scopes=[Scope(collections=[handbook.collection_name])])
    context = builder.build("Wann wird die Heizung gewartet?")
    assert len({passage.metadata["layer"] for passage in context.passages}) > 1


def test_archives_of_a_retriever_are_a_source(handbook: RagArchiveConfig, settings: RagSettings) -> None:
    other = RagArchiveConfig(name="Missing", collection_name="repo_missing", chromadb_url=handbook.chromadb_url)

    async def main() -> tuple[ChatContext, ...]:
        retriever = Retriever(RagConfig(archives=[handbook, other]), settings=settings)
        builder = AsyncContextBuilder(ArchiveSource(retriever, layer="chunk"), settings=SETTINGS, style="archives")
        question = "Wann wird die Heizung gewartet?"
        one = [Scope(collections=[handbook.collection_name])]
        return (
            await builder.build(question),
            await builder.build(question, scopes=[Scope(collections=[handbook.collection_name, "repo_unknown"])]),
            await builder.build(question, scopes=one),
            await builder.build(question, scopes=one, settings=SETTINGS.override(diversity=0.5)),
        )

    both, unknown, one, diverse = asyncio.run(main())
    assert both.used
    assert unknown.passages
    assert [failure.error for failure in unknown.failures] == ["collection of no archive"]
    assert [failure.error for failure in both.failures] == ["collection not found"]
    assert one.failures == diverse.failures == []
    assert {passage.metadata["layer"] for passage in one.passages} == {"chunk"}
    assert "Heizung" in one.text()
