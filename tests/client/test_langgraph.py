"""The tool and the node in real LangGraph graphs, with a scripted chat model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from ragstore_client import EmbeddingCache, InvalidConfiguration, RagArchiveConfig, RagConfig
from ragstore_client.langgraph import build_tools, create_archive_search_tool, inject_rag_context
from tests.client.corpus import CANARY_QUERY, CANARY_TEXT, chunk
from tests.client.fake_servers import FakeEmbeddings, LocalServer
from tests.client.graphs import Graph, ScriptedModel, context_graph, tool_graph
from tests.support.servers import free_port

QUESTION = f"Wann wird die Heizung gewartet? {CANARY_QUERY}"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, embeddings: tuple[FakeEmbeddings, LocalServer]) -> None:
    """The runtime's environment names the embeddings endpoint."""
    monkeypatch.setenv("DOCPROC_TEI_EMBEDDINGS_URL", embeddings[1].url)
    monkeypatch.setenv("RAG_EMBED_TIMEOUT_SECONDS", "3")
    monkeypatch.setattr("ragstore_client.langgraph.shared_cache", EmbeddingCache())


def configured(*archives: RagArchiveConfig) -> RunnableConfig:
    payload = [
        {
            "name": archive.name,
            "collection_name": archive.collection_name,
            "chromadb_url": archive.chromadb_url,
            "embedding_model": archive.embedding_model,
        }
        for archive in archives
    ]
    return {"configurable": {"rag_config": {"archives": payload}}}


def question(text: str = QUESTION) -> MessagesState:
    return {"messages": [HumanMessage(text)]}


def unreachable_archive() -> RagArchiveConfig:
    return RagArchiveConfig(name="Fern", collection_name="repo_x", chromadb_url=f"http://127.0.0.1:{free_port()}")


def message_types(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.type for message in messages]


def test_the_tool_call_and_its_result_are_in_the_message_stream(handbook: RagArchiveConfig) -> None:
    messages = tool_graph().invoke(question(), configured(handbook))["messages"]
    assert message_types(messages) == ["human", "ai", "tool", "ai"]
    call, result, reply = messages[1:]
    assert isinstance(call, AIMessage)
    assert call.tool_calls[0]["name"] == "search_archives"
    assert isinstance(result, ToolMessage)
    assert str(result.content).startswith(
        "[1] Archiv: Handbuch (Ebene: chunk, Seite: 3, Abschnitt: Heizung)\nDie Heizung"
    )
    assert "\n\n---\n\n[2] Archiv: Handbuch" in str(result.content)
    assert CANARY_TEXT in str(reply.content)


async def test_the_async_path_has_the_same_result(handbook: RagArchiveConfig) -> None:
    graph, config = tool_graph(), configured(handbook)
    sync = [message.content for message in graph.invoke(question(), config)["messages"]]
    streamed = [update async for update in graph.astream(question(), config, stream_mode="updates")]
    messages = [message for update in streamed for node in update.values() for message in node["messages"]]
    assert [message.content for message in messages] == sync[1:]


def test_invocations_share_the_cache_of_vectors(
    handbook: RagArchiveConfig, embedding_requests: Callable[[], list[dict[str, object]]]
) -> None:
    for _ in range(3):
        build_tools(configured(handbook))[0].invoke({"query": "Heizung"})
    assert len(embedding_requests()) == 1


def test_the_threads_archives_replace_the_assistants(handbook: RagArchiveConfig) -> None:
    assistant: Graph = tool_graph().with_config(configured(unreachable_archive(), handbook))
    assert "Handbuch" in str(assistant.invoke(question())["messages"][2].content)
    off = assistant.invoke(question(), configured(unreachable_archive()))["messages"]
    assert off[2].content == "Keine Archive verfügbar."


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
    assert build_tools(config) == []
    assert message_types(tool_graph().invoke(question(), config)["messages"]) == ["human", "ai"]


def test_an_invalid_configuration_raises() -> None:
    with pytest.raises(InvalidConfiguration):
        build_tools({"configurable": {"rag_config": {"archives": [{"name": "a"}]}}})


def test_the_tool_describes_its_arguments(handbook: RagArchiveConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_DEFAULT_TOP_K", "1")
    (tool,) = build_tools(configured(handbook))
    assert isinstance(tool, BaseTool)
    assert tool.name == "search_archives"
    assert tool.args["query"]["type"] == "string"
    assert tool.args["top_k"]["default"] == 1
    assert "---" not in tool.invoke({"query": "Heizung"})
    assert tool.invoke({"query": "Heizung", "top_k": 3}).count("---") == 2


def test_the_tool_returns_at_most_20_chunks(
    make_archive: Callable[..., RagArchiveConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [chunk(number, f"Heizung Nummer {number}") for number in range(30)]
    archive = make_archive(*chunks, chunk(0, "Die ganze Seite über die Heizung", layer="page"))
    tool = create_archive_search_tool(RagConfig(archives=[archive]))
    found = tool.invoke({"query": "Heizung", "top_k": 500})
    assert found.count("Nummer") == 20
    assert "Seite über" not in found
    monkeypatch.setenv("RAG_DEFAULT_LAYER", "page")
    assert "Seite über" in create_archive_search_tool(RagConfig(archives=[archive])).invoke({"query": "Heizung"})


@pytest.mark.parametrize(
    ("fault", "archives", "text"),
    [
        ("500", "handbook", "Archivsuche fehlgeschlagen"),
        ("", "away", "Keine Archive verfügbar."),
        ("", "missing", "Keine Archive verfügbar."),
        ("", "none", "Keine Archive verfügbar."),
        ("", "nothing in this layer", "Keine relevanten Dokumente gefunden."),
    ],
)
async def test_failures_are_texts_and_never_exceptions(
    handbook: RagArchiveConfig,
    endpoint: FakeEmbeddings,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    archives: str,
    text: str,
) -> None:
    endpoint.fault = fault
    missing = RagArchiveConfig(name="a", collection_name="repo_nowhere", chromadb_url=handbook.chromadb_url)
    chosen = {"away": [unreachable_archive()], "missing": [missing], "none": []}.get(archives, [handbook])
    if archives == "nothing in this layer":
        monkeypatch.setenv("RAG_DEFAULT_LAYER", "document")
    tool = create_archive_search_tool(RagConfig(archives=chosen))
    assert tool.invoke({"query": QUESTION}) == text
    assert await tool.ainvoke({"query": QUESTION}) == text


def test_the_tool_returns_texts_of_other_languages(handbook: RagArchiveConfig) -> None:
    tool = create_archive_search_tool(RagConfig(archives=[handbook]), language="en")
    assert tool.invoke({"query": "Heizung"}).startswith("[1] Archive: Handbuch (Layer: chunk")
    assert create_archive_search_tool(RagConfig(), language="en").invoke({"query": "x"}) == "No archives available."


async def test_context_is_added_right_before_the_model(handbook: RagArchiveConfig) -> None:
    model = ScriptedModel()
    result = await context_graph(model).ainvoke(question(), configured(handbook))
    (seen,) = model.seen[-1:]
    assert message_types(seen) == ["human", "system"]
    assert str(seen[1].content).startswith("Relevante Dokumente aus den Archiven:\n\n[1] Archiv: Handbuch")
    assert message_types(result["messages"]) == ["human", "system", "ai"]


async def test_context_of_an_earlier_message_is_removed(handbook: RagArchiveConfig) -> None:
    model = ScriptedModel()
    graph = context_graph(model)
    graph.checkpointer = InMemorySaver()
    config: RunnableConfig = {"configurable": {**configured(handbook)["configurable"], "thread_id": "t-1"}}
    await graph.ainvoke(question("Die Heizung"), config)
    result = await graph.ainvoke(question("Der Aufzug"), config)
    assert message_types(result["messages"]) == ["human", "ai", "human", "system", "ai"]
    assert "Aufzug" in str(model.seen[-1][-1].content)[:150]


@pytest.mark.parametrize("archives", ["none", "away"])
async def test_without_passages_nothing_is_added(archives: str) -> None:
    config = configured(*([unreachable_archive()] if archives == "away" else []))
    result = await context_graph(ScriptedModel()).ainvoke(question(), config)
    assert message_types(result["messages"]) == ["human", "ai"]


async def test_a_failed_search_does_not_stop_the_agent(handbook: RagArchiveConfig, endpoint: FakeEmbeddings) -> None:
    endpoint.fault = "500"
    result = await context_graph(ScriptedModel()).ainvoke(question(), configured(handbook))
    assert message_types(result["messages"]) == ["human", "ai"]


async def test_without_a_human_message_nothing_is_searched(handbook: RagArchiveConfig) -> None:
    assert await inject_rag_context({"messages": [SystemMessage("x")]}, configured(handbook)) == {}


async def test_a_message_of_several_parts_is_searched_by_its_texts(handbook: RagArchiveConfig) -> None:
    parts = HumanMessage([{"type": "text", "text": "Die Heizung"}, {"type": "image_url", "image_url": {"url": "x"}}])
    update = await inject_rag_context({"messages": [parts]}, configured(handbook))
    assert "Heizung" in str(update["messages"][0].content)


class Topical(MessagesState):
    """A state with the topic that the conversation has accumulated."""

    current_topic: str


async def test_a_follow_up_is_searched_by_its_topic(
    handbook: RagArchiveConfig, caplog: pytest.LogCaptureFixture
) -> None:
    graph = StateGraph(Topical)
    graph.add_node("inject", inject_rag_context)
    graph.add_edge(START, "inject")
    graph.add_edge("inject", END)
    state: Topical = {"messages": [HumanMessage("Und wer macht das?")], "current_topic": "Treppenhaus reinigt Woche"}
    with caplog.at_level("INFO", "ragstore_client"):
        result = await graph.compile().ainvoke(state, configured(handbook))
    assert "follow-up (contextualized topic)" in caplog.text
    assert "[1] Archiv: Handbuch (Ebene: chunk, Seite: 4, Abschnitt: Reinigung)" in result["messages"][1].content
