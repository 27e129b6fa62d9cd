"""Archives in a LangGraph agent: as a tool, or as context that is put before the model unasked.

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
from ragstore_client.rag._config import MAX_TOP_K, RagConfig, extract_rag_config
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

_DESCRIPTION = (
    "Searches the user's document archives. Use it whenever a question may be answered by documents, policies, "
    "reports, maintenance records or anything else that may have been archived."
)


class RagState(TypedDict, total=False):
    """What `inject_rag_context` reads of a graph's state.

    Attributes:
        messages: the conversation.
        current_topic: the topic that it has accumulated, if the graph keeps one.
    """

    messages: list[AnyMessage]
    current_topic: str


class MessagesUpdate(TypedDict, total=False):
    """What a node changes in a state with LangGraph's `add_messages`.

    Attributes:
        messages: messages to add, and marks of those to remove.
    """

    messages: list[BaseMessage]


def create_archive_search_tool(
    rag_config: RagConfig, *, retriever: Retriever | None = None, language: str = "de"
) -> BaseTool:
    """Make the tool `search_archives` over the archives of an invocation.

    Args:
        rag_config: the archives.
        retriever: what searches them; one with the environment's settings when None.
        language: of the texts that the tool returns.

    Returns:
        A tool for `invoke` and `ainvoke`, with the arguments `query` and `top_k`. It returns text and never raises.

    Raises:
        InvalidConfiguration: the environment is wrong, or there are no texts in that language.
    """
    words = texts(language)
    searcher = retriever or Retriever(rag_config)

    def search_archives(query: str, top_k: int = searcher.settings.default_top_k) -> str:
        try:
            return _answer(searcher.search(query, top_k), language)
        except RagstoreError as error:
            logger.error("Archive search failed: %s", describe(error))
            return words.search_failed

    async def asearch_archives(query: str, top_k: int = searcher.settings.default_top_k) -> str:
        try:
            return _answer(await searcher.asearch(query, top_k), language)
        except RagstoreError as error:
            logger.error("Archive search failed: %s", describe(error))
            return words.search_failed

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
        assistant: the assistant's, when the runtime has not merged the two itself.
        language: of the texts that the tools return.

    Returns:
        The search tool; nothing when there is no `rag_config`, or no archive in it.

    Raises:
        InvalidConfiguration: the `rag_config` or the environment is wrong.
    """
    rag_config = extract_rag_config(config, assistant=assistant)
    if rag_config is None or not rag_config.archives:
        return []
    return [create_archive_search_tool(rag_config, language=language)]


async def inject_rag_context(state: RagState, config: RunnableConfig) -> MessagesUpdate:
    """Put passages on the last human message before the model: a node for right before the one that calls it.

    The context of an earlier message is taken out, so that it does not pile up. Without archives, hits or a human
    message, or when the search fails, nothing is put in.

    Args:
        state: has `messages`, under LangGraph's `add_messages`; and perhaps `current_topic`, the topic that the
            conversation has accumulated, which is then searched for instead of the message.
        config: the invocation's configuration.

    Returns:
        The change of `messages`; empty for none.

    Raises:
        InvalidConfiguration: the `rag_config` or the environment is wrong.
    """
    messages = state.get("messages", [])
    update: list[BaseMessage] = [
        RemoveMessage(id=message.id) for message in messages if message.id and message.id.startswith(_CONTEXT_ID)
    ]
    rag_config = extract_rag_config(config)
    question = next((message for message in reversed(messages) if message.type == "human"), None)
    if rag_config is not None and rag_config.archives and question is not None:
        query = choose_query(_text(question), state.get("current_topic"))
        results = await _results(Retriever(rag_config), query.text)
        if results:
            update.append(SystemMessage(format_context(results), id=f"{_CONTEXT_ID}{uuid.uuid4()}"))
    return {"messages": update} if update else {}


async def _results(retriever: Retriever, query: str) -> SearchResults:
    try:
        return await retriever.asearch(query)
    except RagstoreError as error:
        logger.error("Archive search failed, going on without: %s", describe(error))
        return SearchResults()


def _answer(results: SearchResults, language: str) -> str:
    return texts(language).no_archives if results.unavailable else format_passages(results, language=language)


def _arguments(default_top_k: int) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to search for, put so that it suits a semantic search."},
            "top_k": {
                "type": "integer",
                "description": f"Most passages to return, 1 to {MAX_TOP_K}.",
                "default": default_top_k,
            },
        },
        "required": ["query"],
    }


def _text(message: BaseMessage) -> str:
    """What a message says, be its content a text or a list of parts of which some are texts."""
    if isinstance(message.content, str):
        return message.content
    parts = (part if isinstance(part, str) else part.get("text") for part in message.content)
    return "\n".join(part for part in parts if isinstance(part, str))
