"""The source's story from end to end: real service, real embeddings endpoint, real LangGraph graph."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import MessagesState

from client.agent import agent
from client.corpus import HANDBOOK
from client.fake_servers import Embeddings, LocalServer
from ragstore_client import AsyncClient, EmbeddingsClient, NewDocument, RagSettings, Retriever, extract_rag_config
from ragstore_client.langgraph import append_archive_prompt
from serving import Served

MODEL = "jinaai/jina-embeddings-v2-base-de"
STANDARD = "repo_a1b2c3d4-e5f6-7890-abcd-ef1234567890"
MAINTENANCE = "repo_f9e8d7c6-b5a4-3210-fedc-ba0987654321"


async def embedded(embedder: EmbeddingsClient, documents: list[NewDocument]) -> AsyncIterator[NewDocument]:
    """What the platform does before it stores: vectors from the same endpoint, a few texts at a time."""
    for start in range(0, len(documents), 2):
        some = documents[start : start + 2]
        vectors = await embedder.embed_many([document.text for document in some], model=MODEL)
        for document, vector in zip(some, vectors, strict=True):
            yield NewDocument(id=document.id, text=document.text, embedding=vector, metadata=document.metadata)


async def test_an_agent_answers_from_the_archives_that_are_switched_on(
    service: Served, embeddings: tuple[Embeddings, LocalServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCPROC_TEI_EMBEDDINGS_URL", embeddings[1].url)
    monkeypatch.setenv("DOCPROC_CHROMADB_URL", service.url)
    embedder = EmbeddingsClient(embeddings[1].url)

    # The platform stores two repositories.
    async with AsyncClient(service.url) as client:
        for name, documents in ((STANDARD, HANDBOOK[:2]), (MAINTENANCE, HANDBOOK[2:])):
            await client.create_collection(name, embedding_model=MODEL, embedding_provider="tei")
            outcomes = [outcome async for outcome in client.ingest(name, embedded(embedder, documents))]
            assert all(outcome.stored for outcome in outcomes)

    # The assistant has both; one names its service, the other leaves it to the environment.
    archives: list[dict[str, str]] = [
        {"name": "AIS Management Standard", "collection_name": STANDARD, "chromadb_url": service.url},
        {"name": "Wartungsdokumentation", "collection_name": MAINTENANCE, "embedding_model": MODEL},
    ]
    assistant = agent().with_config({"configurable": {"rag_config": {"archives": archives}}})
    prompt = append_archive_prompt("Du bist ein hilfreicher Assistent für Immobiliendokumente.")

    # A message that should trigger a search: the tool call is in the stream, the archive's words in the answer.
    asked: MessagesState = {"messages": [SystemMessage(prompt), HumanMessage("Hat der Aufzug einen Notruf?")]}
    stream = [update async for update in assistant.astream(asked, stream_mode="updates")]
    assert [list(update) for update in stream] == [["think"], ["act"], ["think"]]
    call, result, answer = (message for update in stream for node in update.values() for message in node["messages"])
    assert isinstance(call, AIMessage)
    assert [each["name"] for each in call.tool_calls] == ["search_archives"]
    assert isinstance(result, ToolMessage)
    assert "[1] Archiv: Wartungsdokumentation (Ebene: chunk, Seite: 6, Abschnitt: Aufzug)" in str(result.content)
    assert "einen Notruf, der immer besetzt ist" in str(answer.content)

    # The user switches one archive off for the next message.
    only: RunnableConfig = {"configurable": {"user_id": "usr_abc123", "rag_config": {"archives": archives[:1]}}}
    told = (await assistant.ainvoke(asked, only))["messages"]
    assert "Wartungsdokumentation" not in str(told[-1].content)
    assert "AIS Management Standard" in str(told[-1].content)

    # And then all.
    none: RunnableConfig = {"configurable": {"rag_config": {"archives": []}}}
    assert (await assistant.ainvoke(asked, none))["messages"][-1].content == "Ohne Archive."

    # From the hit to its section, and what happens when the platform takes the repository away.
    rag_config = extract_rag_config({"configurable": {"rag_config": {"archives": archives}}})
    assert rag_config is not None
    retriever = Retriever(rag_config, settings=RagSettings(embeddings_url=embeddings[1].url))
    hit = (await retriever.asearch("Hat der Aufzug einen Notruf?")).hits[0]
    assert (await retriever.agather_section(hit)).text == hit.text
    async with AsyncClient(service.url) as client:
        await client.delete_collection(MAINTENANCE)
        told = (await assistant.ainvoke(asked))["messages"]
        assert "AIS Management Standard" in str(told[-1].content)
        await client.delete_collection(STANDARD)
        told = (await assistant.ainvoke(asked))["messages"]
        assert told[-1].content == "In den Archiven steht: Keine Archive verfügbar."
