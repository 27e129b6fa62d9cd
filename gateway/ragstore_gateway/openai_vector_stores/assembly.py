"""`VectorStoresApi`: the parts of OpenAI's Vector Stores and Files API, assembled."""

from __future__ import annotations

from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.validate import Validator
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.openai_vector_stores.batches import Batches
from ragstore_gateway.openai_vector_stores.expiry import Expiry
from ragstore_gateway.openai_vector_stores.files import Files
from ragstore_gateway.openai_vector_stores.search import StoreSearch
from ragstore_gateway.openai_vector_stores.store_files import StoreFiles
from ragstore_gateway.openai_vector_stores.stores import Stores
from ragstore_gateway.openai_vector_stores.uploads import Uploads
from ragstore_gateway.retrieval.retriever import KnowledgeRetriever
from ragstore_gateway.settings import Settings


class VectorStoresApi:
    """OpenAI's Vector Stores and Files API.

    Args:
        database: the gateway's state.
        bases: the knowledge bases.
        validator: checks a knowledge base before it is stored.
        ingestion: ingests documents.
        retriever: searches knowledge bases.

    Attributes:
        bases: the knowledge bases.
        files: the uploaded files.
        uploads: files that are uploaded in parts.
        stores: the knowledge bases as vector stores.
        store_files: the files of vector stores.
        batches: files that were attached with one call.
        search: searches.
        expiry: deletes what has expired, while it runs.
        max_file_bytes: size of the largest file.
        session_from: where the session of a request is from.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        bases: Configurations[KnowledgeBase],
        validator: Validator[KnowledgeBase],
        ingestion: Ingestion,
        retriever: KnowledgeRetriever,
    ) -> None:
        self.bases = bases
        self.files = Files(database, settings.max_files_bytes, ingestion.acceptance.storage)
        self.stores = Stores(database, bases, validator)
        self.store_files = StoreFiles(database, bases, ingestion, self.files)
        self.batches = Batches(database, bases, ingestion, self.files, self.store_files)
        self.search = StoreSearch(database, bases, retriever, settings.rag_timeout_seconds)
        self.uploads = Uploads(database, self.files, settings.max_document_bytes)
        self.expiry = Expiry(database, ingestion, self.files, self.store_files, self.uploads, retriever.last_searches)
        self.max_file_bytes = settings.max_document_bytes
        self.session_from = settings.session_from
