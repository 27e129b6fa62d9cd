"""`RetrievalServices`: the parts of retrieval, assembled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.settings import SettingsError
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.where_template import check_where
from ragstore_gateway.conversations.step import Step
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.cross_encoder import CrossEncoders
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.ingestion.collections import Collections
from ragstore_gateway.ingestion.linked_collections import LinkedCollections
from ragstore_gateway.ingestion.revisions import Revisions
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.strays import Strays
from ragstore_gateway.keywords.keyword_index import KeywordIndex
from ragstore_gateway.retrieval.assistant import AssistantServices
from ragstore_gateway.retrieval.assistant_catalog import Assistants
from ragstore_gateway.retrieval.http_calls import HttpCalls
from ragstore_gateway.retrieval.hybrid_search import HybridSearch
from ragstore_gateway.retrieval.plain_models import PlainModels
from ragstore_gateway.retrieval.ranking import Ranking
from ragstore_gateway.retrieval.retriever import KnowledgeRetriever
from ragstore_gateway.retrieval.source_prompt import SourceLimits
from ragstore_gateway.retrieval.tasks import TaskRetrieval
from ragstore_gateway.retrieval.visible_search import VisibleSearch
from ragstore_gateway.retrieval.workflow import Workflows
from ragstore_gateway.settings import Settings, variable
from ragstore_gateway.store.propagation import add_ids


class RetrievalServices:
    """Searches of knowledge bases, and assistants. It works while the block of `running` runs.

    Args:
        database: the gateway's state.
        embeddings: embeds questions.
        collections: the collections of the knowledge bases.
        linked: the existing collections that bases name.
        record: records a step.
        priority: delays ingestions during searches.

    Raises:
        SettingsError: the setting of allowed hosts, or the filter of plain models, is not valid.

    Attributes:
        retriever: searches knowledge bases.
        http_calls: sends the HTTP calls of assistants.
        cross_encoders: the local models of rankings.
        models: the assistants as models with retrieval.
        plain_models: makes the models that are no assistants.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        embeddings: Embeddings,
        collections: Collections,
        linked: LinkedCollections,
        knowledge_bases: Configurations[KnowledgeBase],
        assistants: Configurations[Assistant],
        record: Callable[[Step], Awaitable[None]],
        priority: SearchPriority,
    ) -> None:
        revisions = Revisions(database)
        self._strays = Strays(collections, revisions)
        hybrid = HybridSearch(VisibleSearch(revisions), KeywordIndex(database), revisions)
        self.retriever = KnowledgeRetriever(collections, linked, hybrid, self._strays, priority)
        try:
            self.http_calls = HttpCalls(settings.allowed_http_call_hosts, embeddings.secrets)
        except ValueError:
            raise SettingsError(
                f"{variable('http_call_hosts')} is wrong: its entries must be hosts, or hosts with ports"
            ) from None
        try:
            check_where(settings.rag_where, "$")
        except InvalidRequest as error:
            raise SettingsError(f"{variable('rag_where')} is wrong: {error.detail}") from None
        self._http = httpx.AsyncClient(trust_env=False, follow_redirects=False, event_hooks={"request": [add_ids]})
        self.cross_encoders = CrossEncoders(embeddings.folders)
        ranking = Ranking(embeddings.default, embeddings.secrets, self._http, self.cross_encoders)
        limits = SourceLimits.from_settings(settings)
        retrieval = TaskRetrieval(self.retriever, self.http_calls, ranking, limits)
        services = AssistantServices(settings, Workflows(knowledge_bases), retrieval, record)
        self.models = Assistants(assistants, services)
        self.plain_models = PlainModels(services)

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Open the connections, and load the assistants; close the connections at the end."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._http)
            await stack.enter_async_context(self.http_calls.running())
            await stack.enter_async_context(self.models.running())
            await stack.enter_async_context(self._strays.running())
            yield
