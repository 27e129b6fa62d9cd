"""The node that adds context, in real LangGraph graphs with a scripted chat model."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from ragstore_client import (
    RagArchiveConfig,
    RagConfig,
    Retriever,
)
from ragstore_client.context import (
    Archives,
    ArchiveSource,
    ContextBuilder,
    ContextSettings,
)
from ragstore_client.integrations.langgraph import (
    create_context_node,
    inject_rag_context,
)
from tests.client.fake_servers import FakeEmbeddings
from tests.client.graphs import (
    OwnEmbedder,
    ScriptedModel,
    configured,
    context_graph,
    message_types,
    question,
)

pytestmark = pytest.mark.process

pytestmark = pytest.mark.usefixtures("runtime_environment")


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


async def test_a_context_node_serves_both_ways_of_running_a_graph(handbook: RagArchiveConfig) -> None:
    retriever = Retriever(RagConfig(archives=[handbook]), embedder=OwnEmbedder())
    source = ArchiveSource(retriever, layer="chunk")
    style, settings = Archives(names={handbook.collection_name: "Handbuch"}), ContextSettings(similarity_threshold=-1)
    nodes = [
        create_context_node(retriever=retriever),
        create_context_node(builder=ContextBuilder(source, style=style, settings=settings)),
    ]
    for node in nodes:
        graph = StateGraph(MessagesState)
        graph.add_node("inject", node)
        graph.add_edge(START, "inject")
        graph.add_edge("inject", END)
        for result in (graph.compile().invoke(question()), await graph.compile().ainvoke(question())):
            assert message_types(result["messages"]) == ["human", "system"]
            context = str(result["messages"][1].content)
            assert context.startswith("Relevante Dokumente aus den Archiven:\n\n[1] Archiv: Handbuch")
