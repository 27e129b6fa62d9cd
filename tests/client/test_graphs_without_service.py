"""The integrations of LangGraph and LangChain without a service that responds: real graphs, and nothing is found.

Functions import both: they take a second of each process that collects tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ragstore_client import Client, InvalidConfiguration, RagArchiveConfig, RagConfig, RagSettings
from ragstore_client.context import AsyncContextBuilder, ClientSource, ContextBuilder, session_scopes
from tests.client.context.sources import ScriptedSource
from tests.client.fake_servers import Response, scripted_server, vector_of
from tests.support.servers import free_port

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from ragstore_client.integrations.langgraph import RagState


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"configurable": {}},
        {"configurable": {"rag_config": None}},
        {"configurable": {"rag_config": {"archives": []}}},
    ],
)
def test_without_archives_there_is_no_tool(config: RunnableConfig) -> None:
    from ragstore_client.integrations.langgraph import build_tools
    from tests.client.graphs import message_types, question, tool_graph

    assert build_tools(config) == []
    assert message_types(tool_graph().invoke(question(), config)["messages"]) == ["human", "ai"]


def test_an_invalid_configuration_raises() -> None:
    from ragstore_client.integrations.langgraph import build_tools

    with pytest.raises(InvalidConfiguration):
        build_tools({"configurable": {"rag_config": {"archives": [{"name": "a"}]}}})


def test_a_refused_key_is_not_reported_as_nothing_found(settings: RagSettings) -> None:
    from ragstore_client.integrations.langgraph import create_archive_search_tool

    refusal = Response(401, {"title": "Unauthorized", "status": 401, "code": "unauthorized", "detail": "no"})
    with scripted_server(refusal) as server:
        archive = RagArchiveConfig(name="Akten", collection_name="repo_x", chromadb_url=server.url)
        tool = create_archive_search_tool(RagConfig(archives=[archive]), settings=settings)
        assert (
            tool.invoke({"query": "x"}) == "Archivsuche fehlgeschlagen\n\nNicht durchsucht: Akten (Zugriff verweigert)."
        )


@pytest.mark.parametrize("archives", ["none", "away"])
async def test_without_passages_nothing_is_added(archives: str) -> None:
    from tests.client.graphs import (
        ScriptedModel,
        configured,
        context_graph,
        message_types,
        question,
        unreachable_archive,
    )

    config = configured(*([unreachable_archive()] if archives == "away" else []))
    result = await context_graph(ScriptedModel()).ainvoke(question(), config)
    assert message_types(result["messages"]) == ["human", "ai"]


@pytest.mark.parametrize(
    ("configurable", "session"),
    [
        ({"thread_id": "t-1"}, "t-1"),
        ({"thread_id": "t-1", "session_id": "s-1"}, "s-1"),
        ({"thread_id": 7}, "7"),
        ({}, None),
    ],
)
async def test_a_builder_searches_with_the_session_and_the_topic_of_an_invocation(
    configurable: dict[str, object], session: str | None
) -> None:
    from langchain_core.messages import HumanMessage

    from ragstore_client.integrations.langgraph import create_context_node, inject_rag_context, inject_rag_context_sync

    source = ScriptedSource()
    state: RagState = {"messages": [HumanMessage("And who does that?")], "current_topic": "heating"}
    config: RunnableConfig = {"configurable": configurable}
    asynchronous = AsyncContextBuilder(source, scopes=session_scopes())
    synchronous = ContextBuilder(source, scopes=session_scopes())
    updates = [
        await inject_rag_context(state, config, builder=asynchronous),
        inject_rag_context_sync(state, config, builder=synchronous),
        await create_context_node(builder=asynchronous).ainvoke(state, {**config, "run_id": None}),
    ]
    owners = {"$in": [session, "GLOBAL"]} if session else "GLOBAL"
    assert {(made.query, str(made.where)) for made in source.searches} == {("heating", str({"session_id": owners}))}
    for update in updates:
        assert "Passage number 1" in str(update["messages"][-1].content)


def test_a_failed_search_is_no_documents() -> None:
    from ragstore_client.integrations.langchain import RagstoreContextRetriever

    with Client(f"http://127.0.0.1:{free_port()}") as away:
        builder = ContextBuilder(ClientSource(away, vector_of, collections=["x"]))
        assert RagstoreContextRetriever(builder=builder).invoke("How much do cats sleep?") == []
