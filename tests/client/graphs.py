"""LangGraph graphs with a scripted model; everything else is real."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode

from ragstore_client import RagArchiveConfig
from ragstore_client.integrations.langgraph import build_tools, inject_rag_context
from tests.client.corpus import CANARY_QUERY
from tests.client.fake_servers import vector_of
from tests.support.servers import free_port

Graph = CompiledStateGraph[MessagesState, None, MessagesState, MessagesState]
QUESTION = f"Wann wird die Heizung gewartet? {CANARY_QUERY}"


class OwnEmbedder:
    """An embedder of the runtime's own, with a plain function."""

    connection = "own"

    def embed(self, text: str, *, model: str) -> list[float]:
        return vector_of(text)


def configured(*archives: RagArchiveConfig) -> RunnableConfig:
    """The configuration of an invocation with archives."""
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
    """The state that a message of a user begins."""
    return {"messages": [HumanMessage(text)]}


def unreachable_archive() -> RagArchiveConfig:
    """An archive whose store does not run."""
    return RagArchiveConfig(name="Fern", collection_name="repo_x", chromadb_url=f"http://127.0.0.1:{free_port()}")


def message_types(messages: Sequence[BaseMessage]) -> list[str]:
    """The types of messages, in order."""
    return [message.type for message in messages]


class ScriptedModel(BaseChatModel):
    """Searches the archives with the user's words when it has the tool, and replies with the tool's result."""

    tools: Sequence[str] = ()
    seen: list[list[BaseMessage]] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        self.seen.append(messages)
        last = messages[-1]
        if isinstance(last, ToolMessage):
            reply = AIMessage(f"In den Archiven steht: {last.content}")
        elif "search_archives" in self.tools:
            call = {"name": "search_archives", "args": {"query": str(last.content), "top_k": 2}, "id": "call-1"}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage("Ohne Archive.")
        return ChatResult(generations=[ChatGeneration(message=reply)])


def tool_graph(build: Callable[[RunnableConfig], list[BaseTool]] = build_tools) -> Graph:
    """The graph of the specification: an agent node, and a tool node with the tools of the invocation."""

    def think(state: MessagesState, config: RunnableConfig) -> MessagesState:
        tools = [tool.name for tool in build(config)]
        return {"messages": [ScriptedModel(tools=tools).invoke(state["messages"], config)]}

    async def athink(state: MessagesState, config: RunnableConfig) -> MessagesState:
        tools = [tool.name for tool in build(config)]
        return {"messages": [await ScriptedModel(tools=tools).ainvoke(state["messages"], config)]}

    def act(state: MessagesState, config: RunnableConfig) -> MessagesState:
        done: MessagesState = ToolNode(build(config)).invoke(state, config)
        return done

    async def aact(state: MessagesState, config: RunnableConfig) -> MessagesState:
        done: MessagesState = await ToolNode(build(config)).ainvoke(state, config)
        return done

    def after(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "act" if isinstance(last, AIMessage) and last.tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("think", RunnableLambda(think, athink))
    graph.add_node("act", RunnableLambda(act, aact))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", after, ["act", END])
    graph.add_edge("act", "think")
    return graph.compile()


def context_graph(model: ScriptedModel) -> Graph:
    """The graph that adds context before the model."""

    async def think(state: MessagesState, config: RunnableConfig) -> MessagesState:
        return {"messages": [await model.ainvoke(state["messages"], config)]}

    graph = StateGraph(MessagesState)
    graph.add_node("inject", inject_rag_context)
    graph.add_node("think", think)
    graph.add_edge(START, "inject")
    graph.add_edge("inject", "think")
    graph.add_edge("think", END)
    return graph.compile()
