"""The gateway's errors, below the errors of the kit."""

from __future__ import annotations

from typing import ClassVar

from ragstore.kit.errors import Conflict, NotFound, ServiceError


class NotConfigured(ServiceError):
    """A function needs a setting that is not set."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Not configured"


class StoreUnavailable(ServiceError):
    """The store does not respond, or responds with an error."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Store unavailable"


class StoreRejected(StoreUnavailable):
    """The store responds, and rejects a call that it would reject again: its content, its size, or its credentials."""

    title: ClassVar[str] = "Store rejected a call"


class DatabaseUnavailable(ServiceError):
    """The database of the gateway's state does not respond, or is busy."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Database unavailable"
    retry_after = 1


class InsufficientStorage(DatabaseUnavailable):
    """The disk of the gateway's database is full. Nothing was written."""

    title: ClassVar[str] = "Insufficient storage"
    retry_after = 10


class CollectionMissing(StoreUnavailable):
    """The collection that vectors are written to does not exist in the engine."""

    title: ClassVar[str] = "Collection missing"


class CollectionReadOnly(Conflict):
    """A knowledge base is linked to a collection that others fill."""


class OtherEmbeddingModel(Conflict):
    """A collection has vectors of another embedding model."""


class DriverMissing(NotConfigured):
    """The driver of an engine is not installed."""

    title: ClassVar[str] = "Driver missing"


class EngineMissing(NotConfigured):
    """A knowledge base names an engine that the settings do not have any more."""

    title: ClassVar[str] = "Engine missing"


class DimensionMismatch(ServiceError):
    """A vector of another dimension than its collection's. Nothing was written."""

    status: ClassVar[int] = 409
    title: ClassVar[str] = "Dimension mismatch"


class ModelUnavailable(ServiceError):
    """A configured model cannot be used: it is not installed, or the provider does not have it."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Model unavailable"


class EmbeddingFailed(ServiceError):
    """The embedding provider returned no usable vectors."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Embedding failed"


class EmbeddingUnavailable(EmbeddingFailed):
    """The embedding provider cannot be reached, or responds with 5xx: the same request may succeed later."""

    title: ClassVar[str] = "Embedding provider unavailable"


class EmbeddingRejected(EmbeddingFailed):
    """The embedding provider rejects the request, such as a text that is too long, or the configured credentials."""

    title: ClassVar[str] = "Embedding rejected"


class EmbeddingRateLimited(ServiceError):
    """The embedding provider is at its rate limit.

    Args:
        detail: one sentence for the caller.
        seconds: when the provider accepts requests again, where it says so.
    """

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Embedding provider busy"

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after = seconds


class TooManyEmbeddings(ServiceError):
    """The key has its maximum number of requests that compute vectors or wait for them."""

    status: ClassVar[int] = 429
    title: ClassVar[str] = "Too many embeddings"
    retry_after = 1


class EmbeddingTimeout(ServiceError):
    """The embedding provider did not respond in time."""

    status: ClassVar[int] = 504
    title: ClassVar[str] = "Embedding timed out"


class SecretUnavailable(ServiceError):
    """A secret that a configuration refers to cannot be read."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Secret unavailable"


class VaultUnavailable(SecretUnavailable):
    """Vault cannot be reached, or responds with 5xx."""

    title: ClassVar[str] = "Vault unavailable"


class UpstreamUnreachable(ServiceError):
    """No connection to the upstream could be made, or it ended before the response."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Upstream unreachable"


class UpstreamTimeout(ServiceError):
    """The upstream did not respond in time."""

    status: ClassVar[int] = 504
    title: ClassVar[str] = "Upstream timed out"


class UpstreamFailed(ServiceError):
    """The upstream's response is not one of HTTP, or breaks off, or is too large."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Upstream failed"


class ModelNotFound(NotFound):
    """There is no model of the requested name."""


class ConfigurationNotFound(NotFound):
    """There is no knowledge base or assistant of this id and version, or it is deleted."""


class DocumentNotFound(NotFound):
    """The knowledge base has no document of this name."""


class PassageNotFound(NotFound):
    """The knowledge base has no passage of this id any more."""


class FileNotFound(NotFound):
    """There is no file, or no file of the vector store, or no batch of files, of this id."""


class UploadConflict(Conflict):
    """An upload in parts has ended, or has no such part, or its parts do not fit its size or its MD5."""


class IngestionNotFound(NotFound):
    """The knowledge base has no ingestion of this id."""


class IngestionEnded(Conflict):
    """An ingestion that has ended cannot be cancelled."""


class QuestionRunNotFound(NotFound):
    """The question set has no run of this id, or its entry was removed with the oldest ones."""


class QuestionRunEnded(Conflict):
    """A run that has ended cannot be cancelled."""


class QuestionSetRunning(Conflict):
    """A run of the question set has not ended."""


class NothingExpected(Conflict):
    """No question of the set has an expected passage, so a run would measure nothing."""


class QueueFull(ServiceError):
    """Too many ingestions have not ended, or their documents are too large together."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Queue full"
    retry_after = 10


class BaseTooLarge(Conflict):
    """A knowledge base has more documents than may wait for ingestion, so a copy of them cannot be accepted."""


class FileStorageFull(ServiceError):
    """The uploaded files would be larger together than the settings allow."""

    status: ClassVar[int] = 413
    title: ClassVar[str] = "File storage full"


class NameTaken(Conflict):
    """Another knowledge base or assistant, which is not deleted, has the name."""


class VersionConflict(Conflict):
    """The version of a change is not the current one: another client changed the configuration.

    Args:
        detail: one sentence for the caller, with the current version.
        resource: path of the current version.
    """

    def __init__(self, detail: str, resource: str) -> None:
        super().__init__(detail)
        self._resource = resource

    @property
    def headers(self) -> dict[str, str]:
        """Where the current version is."""
        return {"X-Resource-URI": self._resource}


class RetrievalFailed(ServiceError):
    """Retrieval failed, and the settings do not allow a chat without context."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Retrieval failed"
    retry_after = 1


class AuditUnavailable(ServiceError):
    """The audit ledger cannot be written, and the settings do not allow a chat without its entry."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Audit unavailable"
    retry_after = 1


class AuditDamaged(ServiceError):
    """An entry of the audit ledger cannot be read, because the database was changed."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Audit ledger damaged"


class TooManyVerifications(ServiceError):
    """A verification of the audit ledger is in progress."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Too many verifications"
    retry_after = 10


class VerificationTimeout(ServiceError):
    """The audit ledger is too long to be verified in a request."""

    status: ClassVar[int] = 504
    title: ClassVar[str] = "Verification timeout"


class ResponseNotFound(NotFound):
    """A response is not stored, or belongs to another key."""


class ConversationNotFound(NotFound):
    """There is no conversation of the requested id, or it has no steps that the key may see."""


class StepNotFound(NotFound):
    """The conversation has no step of the requested id of a request that the key may see."""


class TokenRateExceeded(ServiceError):
    """The key has used its tokens of this minute.

    Args:
        seconds: when a request is allowed again.
    """

    status: ClassVar[int] = 429
    title: ClassVar[str] = "Too many tokens"

    def __init__(self, seconds: int) -> None:
        super().__init__("The key has used its tokens of this minute")
        self.retry_after = seconds


class TooManyStreams(ServiceError):
    """The key has its maximum number of concurrent streams."""

    status: ClassVar[int] = 429
    title: ClassVar[str] = "Too many streams"
    retry_after = 1


class ExtractionFailed(ServiceError):
    """A document is damaged, or is not what it is declared to be, or its parser failed on it."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Extraction failed"


class ExtractionTimeout(ServiceError):
    """The extraction of a document's text took longer than the settings allow."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Extraction timed out"


class ExtractionUnavailable(ServiceError):
    """No process for the extraction could be started."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Extraction unavailable"
    retry_after = 1


class SplittingFailed(ServiceError):
    """A document's text cannot be split with the memory that a process may have."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Splitting failed"


class SplittingTimeout(ServiceError):
    """Splitting a document's text took longer than the settings allow."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Splitting timed out"


class TooManyChunks(ServiceError):
    """A document has more chunks than the settings allow."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Too many chunks"


class DocumentTooLarge(ServiceError):
    """A document, its unpacked content or its text is larger than the settings allow, or needs more memory."""

    status: ClassVar[int] = 413
    title: ClassVar[str] = "Document too large"


class EncryptedDocument(ServiceError):
    """A document can be read only with a password."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Encrypted document"


class NoText(ServiceError):
    """A document has no text, such as a scan without a text layer."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "No text"
