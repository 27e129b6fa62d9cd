"""Archives in a LangGraph agent: as a tool, or as context that is added to every message.

Needs the extra `langgraph`; nothing else of the package imports this module.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import TypedDict

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool

from ragstore_client._exceptions import RagstoreError, describe
from ragstore_client.rag._config import MAX_TOP_K, RagConfig, RagSettings, clamp_top_k, extract_rag_config
from ragstore_client.rag._connections import LoopThread
from ragstore_client.rag._detection import BackendDetector
from ragstore_client.rag._embedding_cache import EmbeddingCache
from ragstore_client.rag._formatting import append_archive_prompt, format_context, format_passages, texts
from ragstore_client.rag._results import SearchResults
from ragstore_client.rag._retriever import Retriever
from ragstore_client.rag._strategy import choose_query

__all__ = [
    "MessagesUpdate",
    "RagState",
    "append_archive_prompt",
    "build_tools",
    "create_archive_search_tool",
    "inject_rag_context",
]

logger = logging.getLogger("ragstore_client.rag")

_CONTEXT_ID = "rag-context-"

# A retriever lives for one invocation. These outlive it: all invocations of the process share them.
shared_cache = EmbeddingCache()
shared_detector = BackendDetector()
shared_loop_thread = LoopThread()

_DESCRIPTION = (
    "Searches the user's document archives. Use it whenever a question may be about documents, policies, "
    "reports, maintenance records or anything else that may have been archived."
)


class RagState(TypedDict, total=False):
    """The members of a graph's state that `inject_rag_context` reads.

    Attributes:
        messages: the conversation.
        current_topic: the topic that the conversation has accumulated, if the graph keeps one.
    """

    messages: list[AnyMessage]
    current_topic: str


class MessagesUpdate(TypedDict, total=False):
    """A node's update of a state with LangGraph's `add_messages`.

    Attributes:
        messages: messages to add, and removals of messages.
    """

    messages: list[BaseMessage]


def create_archive_search_tool(
    rag_config: RagConfig, *, retriever: Retriever | None = None, language: str = "de"
) -> BaseTool:
    """Make the tool `search_archives` over the archives of an invocation.

    Args:
        rag_config: the archives.
        retriever: the retriever; one with the environment's settings and this module's shared cache when None.
        language: language of the texts that the tool returns.

    Returns:
        A tool for `invoke` and `ainvoke`, with the arguments `query` and `top_k`. It returns text and never raises.

    Raises:
        InvalidConfiguration: the environment is not valid, or there are no texts in that language.
    """
    labels = texts(language)
    searcher = retriever or _shared_retriever(rag_config)
    layer = searcher.settings.default_layer

    def search_archives(query: str, top_k: int = searcher.settings.default_top_k) -> str:
        try:
            return _format_results(searcher.search(query, clamp_top_k(top_k), layer=layer), language)
        except RagstoreError as error:
            logger.error("Archive search failed: %s", describe(error))
            return labels.search_failed

    async def asearch_archives(query: str, top_k: int = searcher.settings.default_top_k) -> str:
        try:
            return _format_results(await searcher.asearch(query, clamp_top_k(top_k), layer=layer), language)
        except RagstoreError as error:
            logger.error("Archive search failed: %s", describe(error))
            return labels.search_failed

    return StructuredTool.from_function(
        func=search_archives,
        coroutine=asearch_archives,
        name="search_archives",
        description=_DESCRIPTION,
        args_schema=_arguments(searcher.settings.default_top_k),
    )


def build_tools(
    config: Mapping[str, object], *, assistant: Mapping[str, object] | None = None, language: str = "de"
) -> list[BaseTool]:
    """Make the retrieval tools of an invocation.

    Args:
        config: the invocation's configuration.
        assistant: the assistant's configuration, when the runtime has not merged the two.
        language: language of the texts that the tools return.

    Returns:
        The search tool; an empty list when there is no `rag_config`, or no archive in it.

    Raises:
        InvalidConfiguration: the `rag_config` or the environment is not valid.
    """
    rag_config = extract_rag_config(config, assistant=assistant)
    if rag_config is None or not rag_config.archives:
        return []
    return [create_archive_search_tool(rag_config, language=language)]


async def inject_rag_context(state: RagState, config: RunnableConfig) -> MessagesUpdate:
    """Add passages for the last human message to the conversation: a node right before the one that calls the model.

    The context of an earlier message is removed, so that it does not accumulate. Nothing is added without archives,
    passages or a human message, or when the search fails.

    Args:
        state: has `messages`, with LangGraph's `add_messages`, and optionally `current_topic`, the topic that the
            conversation has accumulated, which is then searched for instead of the message.
        config: the invocation's configuration.

    Returns:
        The update of `messages`; empty for none.

    Raises:
        InvalidConfiguration: the `rag_config` or the environment is not valid.
    """
    messages = state.get("messages", [])
    update: list[BaseMessage] = [
        RemoveMessage(id=message.id) for message in messages if message.id and message.id.startswith(_CONTEXT_ID)
    ]
    rag_config = extract_rag_config(config)
    question = next((message for message in reversed(messages) if message.type == "human"), None)
    if rag_config is not None and rag_config.archives and question is not None:
        query = choose_query(_text(question), state.get("current_topic"))
        results = await _search(_shared_retriever(rag_config), query.text)
        if results:
            update.append(SystemMessage(format_context(results), id=f"{_CONTEXT_ID}{uuid.uuid4()}"))
    return {"messages": update} if update else {}


def _shared_retriever(rag_config: RagConfig) -> Retriever:
    return Retriever(
        rag_config,
        settings=RagSettings.from_env(),
        cache=shared_cache,
        detector=shared_detector,
        loop_thread=shared_loop_thread,
    )


async def _search(retriever: Retriever, query: str) -> SearchResults:
    try:
        settings = retriever.settings
        return await retriever.asearch(query, clamp_top_k(settings.default_top_k), layer=settings.default_layer)
    except RagstoreError as error:
        logger.error("Archive search failed, continuing without context: %s", describe(error))
        return SearchResults()


def _format_results(results: SearchResults, language: str) -> str:
    return texts(language).no_archives if results.unavailable else format_passages(results, language=language)


def _arguments(default_top_k: int) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The query, phrased for a semantic search."},
            "top_k": {
                "type": "integer",
                "description": f"Maximum number of passages to return, 1 to {MAX_TOP_K}.",
                "default": default_top_k,
            },
        },
        "required": ["query"],
    }


def _text(message: BaseMessage) -> str:
    """The text of a message, whose content is a text or a list of parts of which some are texts."""
    if isinstance(message.content, str):
        return message.content
    parts = (part if isinstance(part, str) else part.get("text") for part in message.content)
    return "\n".join(part for part in parts if isinstance(part, str))
