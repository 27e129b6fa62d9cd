"""`KnowledgeServices`: builds everything behind /ragstore, /v1/files and /v1/vector_stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import msgspec
from litestar.types import ControllerRouterHandler

from ragstore.kit.auth.name_patterns import ALL_NAMES
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.default_bases import DefaultBases
from ragstore_gateway.configurations.json_schema import KNOWLEDGE_BASE_CHOICES
from ragstore_gateway.configurations.knowledge_base import DEFAULT_STORE, KnowledgeBase
from ragstore_gateway.configurations.link_check import LinkCheck
from ragstore_gateway.configurations.question_set import QuestionSet
from ragstore_gateway.configurations.question_sets import QuestionSets
from ragstore_gateway.configurations.routes import (
    ASSISTANTS,
    KNOWLEDGE_BASES,
    QUESTION_SETS,
    ConfigurationRoutes,
)
from ragstore_gateway.configurations.tenant_bases import TenantBases
from ragstore_gateway.configurations.validate import (
    AssistantValidator,
    KnowledgeBaseValidator,
    QuestionSetValidator,
)
from ragstore_gateway.conversations.assembly import Conversations
from ragstore_gateway.conversations.audit_routes import ROUTES as AUDIT_ROUTES
from ragstore_gateway.conversations.routes import ROUTES as CONVERSATION_ROUTES
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.named_engines import named_engines
from ragstore_gateway.evaluation.evaluations import Evaluations
from ragstore_gateway.evaluation.routes import ROUTES as EVALUATION_ROUTES
from ragstore_gateway.evaluation.runs import QuestionRuns
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion import routes as ingestion_routes
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.placement import Placement
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.split_routes import split_document
from ragstore_gateway.ingestion.store_check import StoreCheck
from ragstore_gateway.ingestion.workload import Workload
from ragstore_gateway.keys import visible_bases
from ragstore_gateway.openai_vector_stores import file_routes, store_routes, upload_routes
from ragstore_gateway.openai_vector_stores.assembly import VectorStoresApi
from ragstore_gateway.openai_vector_stores.files import SIZES as UPLOADED_SIZES
from ragstore_gateway.retrieval.assembly import RetrievalServices
from ragstore_gateway.retrieval.routes import ROUTES as RETRIEVAL_ROUTES
from ragstore_gateway.retrieval.trial_routes import retrieve
from ragstore_gateway.retrieval.trials import RetrievalTrials
from ragstore_gateway.settings import Settings
from ragstore_gateway.sources import file_routes as source_file_routes
from ragstore_gateway.sources import routes as source_routes
from ragstore_gateway.sources.assembly import Sources
from ragstore_gateway.sources.files import SIZES as SOURCE_FILE_SIZES
from ragstore_gateway.sources.files import SourceFiles
from ragstore_gateway.sources.runs import SourceRuns
from ragstore_gateway.sources.upload_kind import upload_kind
from ragstore_gateway.sources.web_kind import SourceFetching
from ragstore_gateway.store.store import Store
from ragstore_gateway.tenants.assembly import Tenants
from ragstore_gateway.tenants.limits import LimitsByTenant
from ragstore_gateway.web.assembly import fetch_rules, url_check


def completed(
    embeddings: Embeddings, engines: Engines, body: KnowledgeBase, before: KnowledgeBase | None
) -> KnowledgeBase:
    """A knowledge base as it is stored: with what new bases have by default, and bases of earlier versions have not.

    Args:
        engines: knows the store types of named engines.
        body: the base as it is written.
        before: the version before; None for a new base.

    Raises:
        InvalidRequest: the engine is configured for another dimension than the model has, or the folder of the model
            cannot be used any more.
    """
    body = _with_engine(engines, body, before)
    if body.collection:
        # The model is that of the collection.
        return body
    same = before is not None and before.embedding_provider == body.embedding_provider
    known = before.embedding_parameters if before is not None and same else None
    parameters = embeddings.with_model(body.embedding_provider, body.embedding_parameters, known)
    headings = body.embed_headings
    if headings is None:
        headings = True if before is None else before.embed_headings
    dimension = embeddings.dimension_of(body.embedding_provider, parameters)
    configured = body.store_parameters.get("dimension")
    if dimension is not None and configured is not None and str(configured) != str(dimension):
        raise InvalidRequest.at("$.storeParameters.dimension", f"Must be {dimension}, as the embeddings have it")
    return msgspec.structs.replace(body, embedding_parameters=dict(parameters), embed_headings=headings)


def _with_engine(engines: Engines, body: KnowledgeBase, before: KnowledgeBase | None) -> KnowledgeBase:
    """A base with its named engine, which a new version keeps unless it chooses another store."""
    engine = body.engine
    if engine is None and before is not None and not body.store_parameters:
        is_kept = body.store_type in (DEFAULT_STORE, before.store_type)
        engine = before.engine if is_kept else ""
    store_type = engines.type_of(engine) if engine else None
    return msgspec.structs.replace(body, engine=engine or "", store_type=store_type or body.store_type)


class KnowledgeServices:
    """Knowledge bases and assistants: what is stored, what runs in the background, and the routes.

    Args:
        store: the gateway's store.
        embeddings: embeds questions and documents.
        extractor: extracts the texts of documents. It runs as long as this does.
        workload: the bases whose jobs this process runs.

    Attributes:
        database: the gateway's state.
        tenants: the limits of tenants.
        question_sets: the question sets of knowledge bases.
        engines: opens collections of engines.
        ingestion: ingests documents.
        sources: keeps knowledge bases in step with websites and uploaded files.
        source_files: the uploaded files.
        conversations: what was retrieved for which conversation.
        retrieval: searches of knowledge bases, and assistants as models.
        vector_stores_api: OpenAI's Vector Stores and Files API.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        embeddings: Embeddings,
        extractor: Extractor,
        workload: Workload = Workload.ALL,
    ) -> None:
        self.database = Database.from_settings(settings)
        self.engines = engines = Engines(
            embeddings.secrets,
            store.client,
            ragstore_problem=lambda: store.problem,
            named=named_engines(settings.engines, embeddings.secrets),
        )
        self.knowledge_bases = Configurations(
            self.database,
            "rags",
            KnowledgeBase,
            lambda body, before: completed(embeddings, engines, body, before),
            Placement(self.database, settings.placement_engines).placed,
        )
        self.assistants = Configurations(self.database, "assistants", Assistant)
        self.question_sets = QuestionSets(self.database, self.knowledge_bases)
        self.tenants = Tenants(LimitsByTenant(settings.tenants), self.database)
        self.knowledge_bases.add_listener(TenantBases(self.tenants.limits))
        self._store_check = StoreCheck(self.database, store) if settings.check_store else None
        self.ingestion = Ingestion(
            settings,
            self.database,
            self.knowledge_bases,
            embeddings,
            self.engines,
            extractor,
            partial(store.permits, writes=True),
            workload,
            (*UPLOADED_SIZES, SOURCE_FILE_SIZES),
            SearchPriority(store.queries),
        )
        self._fetching = SourceFetching(settings, extractor)
        runs = SourceRuns(self.database, self.ingestion.leases)
        self.source_files = SourceFiles(self.database, self.ingestion, runs, settings.max_document_bytes)
        self.sources = Sources(
            self.database,
            self.knowledge_bases,
            self.ingestion,
            runs,
            {"web": self._fetching.kind, "upload": upload_kind(self.source_files, extractor)},
            # A worker accepts the documents of all bases. The gateway ingests the documents of `in-memory` bases.
            begins_scheduled=workload is not Workload.IN_MEMORY,
        )
        self.conversations = Conversations(self.database, settings)
        self._defaults = DefaultBases(self.knowledge_bases, settings.collections, settings.collection_prefix)
        self.retrieval = RetrievalServices(
            settings,
            self.database,
            embeddings,
            self.ingestion.collections,
            self.ingestion.linked,
            self.knowledge_bases,
            self.assistants,
            self.conversations.record,
            self.ingestion.priority,
        )
        self._evaluations = Evaluations(
            self.question_sets,
            self.knowledge_bases,
            QuestionRuns(self.database, self.ingestion.leases),
            self.retrieval.retriever,
            settings.rag_timeout_seconds,
        )
        validator = KnowledgeBaseValidator(
            embeddings.check,
            self.engines.check,
            self.engines.check_named,
            url_check(fetch_rules(settings)),
            LinkCheck(store, settings).faults,
        )
        self.vector_stores_api = VectorStoresApi(
            settings, self.database, self.knowledge_bases, validator, self.ingestion, self.retrieval.retriever
        )
        self._base_routes = ConfigurationRoutes(
            self.knowledge_bases,
            KnowledgeBase,
            validator,
            KNOWLEDGE_BASES,
            visible_bases,
            KNOWLEDGE_BASE_CHOICES,
            self.sources.copy_documents,
        )
        assistant_validator = AssistantValidator(
            self.knowledge_bases,
            embeddings.secrets,
            self.retrieval.http_calls.check,
            self.retrieval.cross_encoders.check,
        )
        self._assistant_routes = ConfigurationRoutes(
            self.assistants, Assistant, assistant_validator, ASSISTANTS, lambda _: ALL_NAMES
        )
        self._question_routes = ConfigurationRoutes(
            self.question_sets,
            QuestionSet,
            QuestionSetValidator(self.knowledge_bases),
            QUESTION_SETS,
            visible_bases,
        )
        self._trials = RetrievalTrials(
            self.retrieval.models, self.retrieval.plain_models, self.knowledge_bases, assistant_validator
        )

    @property
    def routes(self) -> Sequence[ControllerRouterHandler]:
        """The routes."""
        return [
            *self._base_routes.handlers(),
            *self._assistant_routes.handlers(),
            *self._question_routes.handlers(),
            *ingestion_routes.ROUTES,
            split_document,
            *source_routes.ROUTES,
            *source_file_routes.ROUTES,
            *store_routes.ROUTES,
            *file_routes.ROUTES,
            *upload_routes.ROUTES,
            *RETRIEVAL_ROUTES,
            *EVALUATION_ROUTES,
            retrieve,
            *CONVERSATION_ROUTES,
            *AUDIT_ROUTES,
        ]

    @property
    def dependencies(self) -> Mapping[str, Any]:
        """The values that routes request by the name of a parameter."""
        return {
            "database": self.database,
            "knowledge_bases": self.knowledge_bases,
            "assistants": self.assistants,
            "ingestion": self.ingestion,
            "sources": self.sources,
            "source_files": self.source_files,
            "conversations": self.conversations,
            "vector_stores_api": self.vector_stores_api,
            "retriever": self.retrieval.retriever,
            "retrieval_trials": self._trials,
            "evaluations": self._evaluations,
        }

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Start everything, and stop it at the end.

        Raises:
            DatabaseNotUsable: the gateway cannot start with this database.
        """
        async with (
            self.database.running(),
            self.tenants.running(),
            self._defaults.running(),
            self.engines.running(),
            self._store_check.running() if self._store_check is not None else nullcontext(),
            self.ingestion.running(),
            self._fetching.running(),
            self.sources.running(),
            self.conversations.running(),
            self.retrieval.running(),
            self.vector_stores_api.expiry.running(),
            self.vector_stores_api.files.measuring(),
            self._evaluations.running(),
        ):
            yield
