"""The specification's scenario from end to end: real service, real embeddings endpoint, real LangGraph graph."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import MessagesState

from ragstore_client import AsyncClient, EmbeddingsClient, NewDocument, RagSettings, Retriever, extract_rag_config
from ragstore_client.integrations.langgraph import append_archive_prompt
from tests.client.corpus import HANDBOOK
from tests.client.fake_servers import FakeEmbeddings, LocalServer
from tests.client.graphs import tool_graph
from tests.support.servers import Served

pytestmark = pytest.mark.process

MODEL = "jinaai/jina-embeddings-v2-base-de"
STANDARD = "repo_a1b2c3d4-e5f6-7890-abcd-ef1234567890"
MAINTENANCE = "repo_f9e8d7c6-b5a4-3210-fedc-ba0987654321"


async def embedded(embedder: EmbeddingsClient, documents: list[NewDocument]) -> AsyncIterator[NewDocument]:
    """Embeds documents as the platform does before it stores them: a few texts at a time, with the same endpoint."""
    for start in range(0, len(documents), 2):
        some = documents[start : start + 2]
        vectors = await embedder.embed_many([document.text for document in some], model=MODEL)
        for document, vector in zip(some, vectors, strict=True):
            yield NewDocument(id=document.id, text=document.text, embedding=vector, metadata=document.metadata)


async def test_an_agent_answers_from_the_archives_that_are_enabled(
    client_service: Served, embeddings: tuple[FakeEmbeddings, LocalServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCPROC_TEI_EMBEDDINGS_URL", embeddings[1].url)
    monkeypatch.setenv("DOCPROC_CHROMADB_URL", client_service.url)
    embedder = EmbeddingsClient(embeddings[1].url)

    # The platform stores two repositories.
    async with AsyncClient(client_service.url) as client:
        for name, documents in ((STANDARD, HANDBOOK[:2]), (MAINTENANCE, HANDBOOK[2:])):
            await client.create_collection(name, embedding_model=MODEL, embedding_provider="tei")
            outcomes = [outcome async for outcome in client.ingest(name, embedded(embedder, documents))]
            assert all(outcome.stored for outcome in outcomes)

    # The assistant has both; one names its service, the other uses the default of the environment.
    archives: list[dict[str, str]] = [
        {"name": "AIS Management Standard", "collection_name": STANDARD, "chromadb_url": client_service.url},
        {"name": "Wartungsdokumentation", "collection_name": MAINTENANCE, "embedding_model": MODEL},
    ]
    assistant = tool_graph().with_config({"configurable": {"rag_config": {"archives": archives}}})
    prompt = append_archive_prompt("Du bist ein hilfreicher Assistent für Immobiliendokumente.")

    # A message that should trigger a search: the tool call is in the stream, the archive's words in the reply.
    conversation: MessagesState = {"messages": [SystemMessage(prompt), HumanMessage("Hat der Aufzug einen Notruf?")]}
    stream = [update async for update in assistant.astream(conversation, stream_mode="updates")]
    assert [list(update) for update in stream] == [["think"], ["act"], ["think"]]
    call, result, reply = (message for update in stream for node in update.values() for message in node["messages"])
    assert isinstance(call, AIMessage)
    assert [each["name"] for each in call.tool_calls] == ["search_archives"]
    assert isinstance(result, ToolMessage)
    assert "[1] Archiv: Wartungsdokumentation (Ebene: chunk, Seite: 6, Abschnitt: Aufzug)" in str(result.content)
    assert "einen Notruf, der immer besetzt ist" in str(reply.content)

    # The user disables one archive for the next message.
    only: RunnableConfig = {"configurable": {"user_id": "usr_abc123", "rag_config": {"archives": archives[:1]}}}
    messages = (await assistant.ainvoke(conversation, only))["messages"]
    assert "Wartungsdokumentation" not in str(messages[-1].content)
    assert "AIS Management Standard" in str(messages[-1].content)

    # And then all.
    none: RunnableConfig = {"configurable": {"rag_config": {"archives": []}}}
    assert (await assistant.ainvoke(conversation, none))["messages"][-1].content == "Ohne Archive."

    # From the passage to its section, and what happens when the platform deletes the repository.
    rag_config = extract_rag_config({"configurable": {"rag_config": {"archives": archives}}})
    assert rag_config is not None
    retriever = Retriever(rag_config, settings=RagSettings(embeddings_url=embeddings[1].url))
    passage = (await retriever.asearch("Hat der Aufzug einen Notruf?")).passages[0]
    assert (await retriever.agather_section(passage)).text == passage.text
    async with AsyncClient(client_service.url) as client:
        await client.delete_collection(MAINTENANCE)
        messages = (await assistant.ainvoke(conversation))["messages"]
        assert "AIS Management Standard" in str(messages[-1].content)
        await client.delete_collection(STANDARD)
        messages = (await assistant.ainvoke(conversation))["messages"]
        assert str(messages[-1].content).startswith("In den Archiven steht: Keine Archive verfügbar.")
        assert "AIS Management Standard (nicht vorhanden)" in str(messages[-1].content)
