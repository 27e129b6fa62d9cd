"""`Mcp`: the parts of the Model Context Protocol, assembled."""

from __future__ import annotations

from ragstore_gateway.chat.assembly import MARGIN_SECONDS, Chat
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.mcp.documents import VisibleDocuments
from ragstore_gateway.mcp.endpoint import McpEndpoint
from ragstore_gateway.mcp.rag_chat import RagChat
from ragstore_gateway.mcp.tools import WAIT_SECONDS, Tools
from ragstore_gateway.retrieval.retriever import KnowledgeRetriever
from ragstore_gateway.settings import Settings


def create_mcp(
    settings: Settings,
    chat: Chat,
    bases: Configurations[KnowledgeBase],
    ingestion: Ingestion,
    retriever: KnowledgeRetriever,
) -> McpEndpoint:
    """The endpoint of `/mcp`.

    Args:
        settings: the gateway's settings.
        chat: the parts of chat.
        bases: the knowledge bases.
        ingestion: ingests documents.
        retriever: searches knowledge bases.
    """
    documents = VisibleDocuments(bases, ingestion.documents)
    tools = Tools(bases, documents, ingestion, retriever, RagChat(chat), settings.rag_timeout_seconds)
    budget = max(chat.budget_seconds, WAIT_SECONDS + MARGIN_SECONDS)
    return McpEndpoint(settings, tools, bases, documents, chat.is_authorized, budget)
