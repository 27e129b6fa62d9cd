"""Archives in a LangGraph agent: as a tool, or as context that is added to every message.

Needs the extra `langgraph`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import TypedDict

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool

from ragstore_client._exceptions import RagstoreError, describe
from ragstore_client.context._builder import AsyncContextBuilder
from ragstore_client.context._context import ChatContext
from ragstore_client.context._sync_builder import ContextBuilder
from ragstore_client.integrations._archive_tool import (
    ArchiveHit,
    SearchArtifact,
    UnsearchedArchive,
    create_archive_search_tool,
    shared_retriever,
)
from ragstore_client.rag._config import RagSettings, clamp_top_k, extract_rag_config
from ragstore_client.rag._embedder import Embedder
from ragstore_client.rag._formatting import append_archive_prompt, format_context, texts
from ragstore_client.rag._retriever import Retriever
from ragstore_client.rag._strategy import choose_query

__all__ = [
    "ArchiveHit",
    "MessagesUpdate",
    "RagState",
    "SearchArtifact",
    "UnsearchedArchive",
    "append_archive_prompt",
    "build_tools",
    "check",
    "create_archive_search_tool",
    "create_context_node",
    "inject_rag_context",
    "inject_rag_context_sync",
]

logger = logging.getLogger("ragstore_client.rag")

_CONTEXT_ID = "rag-context-"


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


def check(environ: Mapping[str, str] | None = None) -> RagSettings:
    """Check the environment when a runtime starts. Within an invocation, a wrong variable is only logged.

    Args:
        environ: the environment; the process's when None.

    Returns:
        The settings.

    Raises:
        InvalidConfiguration: values of variables are not valid; the text names each of the variables.
    """
    return RagSettings.from_env(environ)


def build_tools(
    config: Mapping[str, object],
    *,
    assistant: Mapping[str, object] | None = None,
    retriever: Retriever | None = None,
    embedder: Embedder | None = None,
    settings: RagSettings | None = None,
    language: str = "de",
) -> list[BaseTool]:
    """Make the retrieval tools of an invocation.

    Args:
        config: the invocation's configuration.
        assistant: the assistant's configuration, when the runtime has not merged the two.
        retriever: searches its own archives, whatever the configuration says.
        embedder: embeds queries; the endpoint in `settings` when None.
        settings: time limits and defaults; the environment's when None.
        language: language of the texts that the tools return.

    Returns:
        The search tool; an empty list when there is no `rag_config`, or no archive in it.

    Raises:
        InvalidConfiguration: the `rag_config` is not valid.
    """
    rag_config = extract_rag_config(config, assistant=assistant) if retriever is None else retriever.config
    if rag_config is None or not rag_config.archives:
        return []
    return [
        create_archive_search_tool(
            rag_config, retriever=retriever, embedder=embedder, settings=settings, language=language
        )
    ]


async def inject_rag_context(
    state: RagState,
    config: RunnableConfig,
    *,
    retriever: Retriever | None = None,
    embedder: Embedder | None = None,
    settings: RagSettings | None = None,
    builder: AsyncContextBuilder | None = None,
    language: str = "de",
) -> MessagesUpdate:
    """Add passages for the last human message to the conversation: a node right before the model's node.

    The context of an earlier message is removed, so that it does not accumulate. Nothing is added without archives,
    passages or a human message, or when the search fails. `create_context_node` makes a node with other arguments.

    Args:
        state: has `messages`, with LangGraph's `add_messages`, and optionally `current_topic`, the topic that the
            conversation has accumulated, which is then searched for instead of the message.
        config: the invocation's configuration.
        retriever: searches its own archives, whatever the configuration says.
        embedder: embeds queries; the endpoint in `settings` when None.
        settings: time limits and defaults; the environment's when None.
        builder: builds the context within a token budget, in place of the retriever. Its session is `session_id` of
            `config["configurable"]`, or the id of the thread.
        language: language of the labels.

    Returns:
        The update of `messages`; empty for none.

    Raises:
        InvalidConfiguration: the `rag_config` is not valid.
    """
    update, message = _begin(state)
    topic = state.get("current_topic")
    if message is not None and builder is not None:
        _add(update, _context_of(await builder.build(message, topic=topic, session_id=_session_id(config))))
    elif message is not None and (searcher := _searcher(config, retriever, embedder, settings)) is not None:
        query = choose_query(message, topic).text
        try:
            found = await searcher.asearch(query, _top_k(searcher), layer=searcher.settings.default_layer)
            _add(update, format_context(found, language=language) if found else "")
        except RagstoreError as error:
            logger.error("Archive search failed, continuing without context: %s", describe(error))
    return {"messages": update} if update else {}


def inject_rag_context_sync(
    state: RagState,
    config: RunnableConfig,
    *,
    retriever: Retriever | None = None,
    embedder: Embedder | None = None,
    settings: RagSettings | None = None,
    builder: ContextBuilder | None = None,
    language: str = "de",
) -> MessagesUpdate:
    """Add passages for the last human message to the conversation, for `graph.invoke`. See `inject_rag_context`."""
    update, message = _begin(state)
    topic = state.get("current_topic")
    if message is not None and builder is not None:
        _add(update, _context_of(builder.build(message, topic=topic, session_id=_session_id(config))))
    elif message is not None and (searcher := _searcher(config, retriever, embedder, settings)) is not None:
        query = choose_query(message, topic).text
        try:
            found = searcher.search(query, _top_k(searcher), layer=searcher.settings.default_layer)
            _add(update, format_context(found, language=language) if found else "")
        except RagstoreError as error:
            logger.error("Archive search failed, continuing without context: %s", describe(error))
    return {"messages": update} if update else {}


def create_context_node(
    *,
    retriever: Retriever | None = None,
    embedder: Embedder | None = None,
    settings: RagSettings | None = None,
    builder: ContextBuilder | AsyncContextBuilder | None = None,
    language: str = "de",
) -> Runnable[RagState, MessagesUpdate]:
    """Make a node that adds context, for `graph.invoke` and for `graph.ainvoke`.

    Args:
        retriever: as for `inject_rag_context`.
        embedder: as for `inject_rag_context`.
        settings: as for `inject_rag_context`.
        builder: as for `inject_rag_context`; an `AsyncContextBuilder` serves `graph.ainvoke` only.
        language: as for `inject_rag_context`.

    Returns:
        The node, for `graph.add_node("context", create_context_node())`.

    Raises:
        InvalidConfiguration: there are no texts in that language.
    """
    texts(language)
    asynchronous = builder if isinstance(builder, AsyncContextBuilder) else None
    synchronous = builder if isinstance(builder, ContextBuilder) else None

    def node(state: RagState, config: RunnableConfig) -> MessagesUpdate:
        return inject_rag_context_sync(
            state,
            config,
            retriever=retriever,
            embedder=embedder,
            settings=settings,
            builder=synchronous,
            language=language,
        )

    async def anode(state: RagState, config: RunnableConfig) -> MessagesUpdate:
        return await inject_rag_context(
            state,
            config,
            retriever=retriever,
            embedder=embedder,
            settings=settings,
            builder=asynchronous,
            language=language,
        )

    if asynchronous is not None:
        return RunnableLambda(anode, name="inject_rag_context")
    return RunnableLambda(node, None if synchronous is not None else anode, name="inject_rag_context")


def _searcher(
    config: RunnableConfig, retriever: Retriever | None, embedder: Embedder | None, settings: RagSettings | None
) -> Retriever | None:
    if retriever is not None:
        return retriever
    rag_config = extract_rag_config(config)
    if rag_config is None or not rag_config.archives:
        return None
    return shared_retriever(rag_config, embedder, settings)


def _begin(state: RagState) -> tuple[list[BaseMessage], str | None]:
    """The removals of earlier context, and the text of the last human message."""
    messages = state.get("messages", [])
    update: list[BaseMessage] = [
        RemoveMessage(id=message.id) for message in messages if message.id and message.id.startswith(_CONTEXT_ID)
    ]
    question = next((message for message in reversed(messages) if message.type == "human"), None)
    return update, None if question is None else _text(question)


def _session_id(config: RunnableConfig) -> str | None:
    configurable = config.get("configurable") or {}
    identifier = configurable.get("session_id") or configurable.get("thread_id")
    return str(identifier) if identifier else None


def _add(update: list[BaseMessage], context: str) -> None:
    if context:
        update.append(SystemMessage(context, id=f"{_CONTEXT_ID}{uuid.uuid4()}"))


def _context_of(built: ChatContext) -> str:
    return built.style.context(built.passages) if built.used else ""


def _top_k(retriever: Retriever) -> int:
    return clamp_top_k(retriever.settings.default_top_k)


def _text(message: BaseMessage) -> str:
    """The text of a message, whose content is a text or a list of parts of which some are texts."""
    if isinstance(message.content, str):
        return message.content
    parts = (part if isinstance(part, str) else part.get("text") for part in message.content)
    return "\n".join(part for part in parts if isinstance(part, str))
