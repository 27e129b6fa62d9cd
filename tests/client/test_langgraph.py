"""The tool and the node in real LangGraph graphs, with a scripted chat model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from ragstore_client import (
    InvalidConfiguration,
    NewDocument,
    RagArchiveConfig,
    RagConfig,
    RagSettings,
    Retriever,
)
from ragstore_client.integrations.langgraph import (
    RagState,
    build_tools,
    check,
    create_archive_search_tool,
    inject_rag_context,
)
from tests.client.corpus import CANARY_TEXT, chunk
from tests.client.fake_servers import FakeEmbeddings, vector_of
from tests.client.graphs import (
    QUESTION,
    Graph,
    OwnEmbedder,
    configured,
    message_types,
    question,
    tool_graph,
    unreachable_archive,
)
from tests.support.servers import free_port

pytestmark = pytest.mark.process

pytestmark = pytest.mark.usefixtures("runtime_environment")


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
    assert off[2].content == "Keine Archive verfügbar.\n\nNicht durchsucht: Fern (nicht erreichbar)."


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
        ("", "away", "Keine Archive verfügbar.\n\nNicht durchsucht: Fern (nicht erreichbar)."),
        ("", "missing", "Keine Archive verfügbar.\n\nNicht durchsucht: a (nicht vorhanden)."),
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


@pytest.mark.parametrize(
    ("arguments", "passages"),
    [
        ({"query": "Heizung", "top_k": "2"}, 2),
        ({"query": "Heizung", "top_k": "2.0"}, 2),
        ({"query": "Heizung", "top_k": 2.0}, 2),
        ({"query": "Heizung", "top_k": None}, 3),
        ({"query": "Heizung", "top_k": "many"}, 3),
        ({"query": "Heizung", "top_k": float("nan")}, 3),
        ({"query": "Heizung", "top_k": {"limit": 2}}, 3),
        ({"query": "Heizung", "top_k": -5}, 1),
        ({"query": "Heizung", "archive": "Handbuch", "k": 1}, 3),
        ({"query": ["Heizung", "Herbst"]}, 3),
        ({"query": 5}, 3),
        ({"query": None}, 0),
        ({"query": "  "}, 0),
        ({}, 0),
        ({"top_k": 2}, 0),
        ({"text": "Heizung"}, 0),
    ],
    ids=str,
)
async def test_wrong_arguments_of_a_tool_call_never_end_a_graph(
    handbook: RagArchiveConfig, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, object], passages: int
) -> None:
    monkeypatch.setenv("RAG_DEFAULT_TOP_K", "3")
    node = ToolNode(build_tools(configured(handbook)))
    call = AIMessage("", tool_calls=[{"name": "search_archives", "args": arguments, "id": "call-1"}])
    graph = StateGraph(MessagesState)
    graph.add_node("act", node)
    graph.add_edge(START, "act")
    graph.add_edge("act", END)
    for state in (graph.compile().invoke({"messages": [call]}), await graph.compile().ainvoke({"messages": [call]})):
        message = state["messages"][-1]
        assert isinstance(message, ToolMessage)
        assert str(message.content).count("Archiv: ") == passages
        if not passages:
            assert str(message.content).startswith("Das Argument query fehlt.")


def test_the_schema_of_the_tool_has_descriptions_and_limits(handbook: RagArchiveConfig) -> None:
    schema = create_archive_search_tool(RagConfig(archives=[handbook])).get_input_jsonschema()
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"]["description"]
    top_k = schema["properties"]["top_k"]
    assert (top_k["type"], top_k["minimum"], top_k["maximum"], top_k["default"]) == ("integer", 1, 20, 5)


def test_the_program_receives_the_hits(handbook: RagArchiveConfig) -> None:
    tool = create_archive_search_tool(RagConfig(archives=[handbook, unreachable_archive()]))
    message = tool.invoke({"type": "tool_call", "name": tool.name, "id": "1", "args": {"query": "Heizung", "top_k": 2}})
    first, second = message.artifact["hits"]
    assert (first["citation"], second["citation"]) == ("[1]", "[2]")
    assert (first["archive"], first["collection"]) == ("Handbuch", handbook.collection_name)
    assert first["score"] >= second["score"]
    assert first["text"] in message.content
    assert first["metadata"]["section_heading"] == "Heizung"
    assert message.artifact["not_searched"] == [{"archive": "Fern", "collection": "repo_x", "reason": "unreachable"}]


def test_the_model_is_told_which_archives_were_not_searched(
    handbook: RagArchiveConfig, make_archive: Callable[..., RagArchiveConfig]
) -> None:
    empty = make_archive()
    missing = RagArchiveConfig(name="Alt", collection_name="repo_nowhere", chromadb_url=handbook.chromadb_url)
    partial = create_archive_search_tool(RagConfig(archives=[handbook, unreachable_archive(), missing]))
    found = partial.invoke({"query": "Heizung"})
    assert found.startswith("[1] Archiv: Handbuch")
    assert "\n\nNicht durchsucht: " in found
    assert "Fern (nicht erreichbar)" in found
    assert "Alt (nicht vorhanden)" in found
    assert create_archive_search_tool(RagConfig(archives=[empty]), language="en").invoke({"query": "x"}) == (
        "No relevant documents found."
    )
    unsure = create_archive_search_tool(RagConfig(archives=[empty, missing]), language="en").invoke({"query": "x"})
    assert unsure == (
        "No relevant documents found in the archives that could be searched.\n\nNot searched: Alt (does not exist)."
    )


async def test_tools_and_nodes_take_the_runtimes_own_parts(
    handbook: RagArchiveConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCPROC_TEI_EMBEDDINGS_URL", f"http://127.0.0.1:{free_port()}")
    (tool,) = build_tools(
        configured(handbook), embedder=OwnEmbedder(), settings=RagSettings(default_top_k=1), language="en"
    )
    assert tool.invoke({"query": "Heizung"}).startswith("[1] Archive: Handbuch")
    retriever = Retriever(RagConfig(archives=[handbook]), embedder=OwnEmbedder())
    assert build_tools({}, retriever=retriever)[0].invoke({"query": "Heizung"}).startswith("[1] Archiv: Handbuch")
    state: RagState = {"messages": [HumanMessage(QUESTION)]}
    update = await inject_rag_context(state, {}, retriever=retriever, language="en")
    assert str(update["messages"][-1].content).startswith("Relevant documents from the archives:")


def test_a_wrong_variable_is_an_error_at_the_start_and_a_warning_in_an_invocation(
    handbook: RagArchiveConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RAG_DEFAULT_TOP_K", "many")
    monkeypatch.setenv("RAG_QUERY_TIMEOUT_SECONDS", "-1")
    with pytest.raises(
        InvalidConfiguration, match="RAG_DEFAULT_TOP_K must be a number; RAG_QUERY_TIMEOUT_SECONDS must"
    ):
        check()
    assert build_tools(configured(handbook))[0].invoke({"query": "Heizung"}).startswith("[1]")
    assert "RAG_DEFAULT_TOP_K must be a number; the default is used" in caplog.text


def test_documents_without_a_layer_are_found_and_that_is_logged_once(
    make_archive: Callable[..., RagArchiveConfig], caplog: pytest.LogCaptureFixture
) -> None:
    plain = [NewDocument(id=str(n), text=f"Heizung {n}", embedding=vector_of("Heizung")) for n in range(3)]
    archive = make_archive(*plain)
    for _ in range(2):
        found = create_archive_search_tool(RagConfig(archives=[archive])).invoke({"query": "Heizung"})
        assert found.count("Archiv: ") == 3
    assert caplog.text.count("have no layer: all of them are searched") == 1
