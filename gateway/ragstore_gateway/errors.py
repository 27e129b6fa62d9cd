"""The gateway's errors, below the errors of the kit."""

from __future__ import annotations

from ragstore.kit.errors import Conflict, NotFound, ServiceError


class NotConfigured(ServiceError, status=503, title="Not configured"):
    """A function needs a setting that is not set."""


class StoreUnavailable(ServiceError, status=503, title="Store unavailable"):
    """The store does not respond, or responds with an error."""


class StoreRejected(StoreUnavailable, title="Store rejected a call"):
    """The store responds, and rejects a call that it would reject again: its content, its size, or its credentials."""


class DatabaseUnavailable(ServiceError, status=503, title="Database unavailable", retry_after=1):
    """The database of the gateway's state does not respond, or is busy."""


class InsufficientStorage(DatabaseUnavailable, title="Insufficient storage", retry_after=10):
    """The disk of the gateway's database is full. Nothing was written."""


class CollectionMissing(StoreUnavailable, title="Collection missing"):
    """The collection that vectors are written to does not exist in the engine."""


class CollectionReadOnly(Conflict):
    """A knowledge base is linked to a collection that others fill."""


class OtherEmbeddingModel(Conflict):
    """A collection has vectors of another embedding model."""


class DriverMissing(NotConfigured, title="Driver missing"):
    """The driver of an engine is not installed."""


class EngineMissing(NotConfigured, title="Engine missing"):
    """A knowledge base names an engine that the settings do not have any more."""


class DimensionMismatch(ServiceError, status=409, title="Dimension mismatch"):
    """A vector of another dimension than its collection's. Nothing was written."""


class ModelUnavailable(ServiceError, status=503, title="Model unavailable"):
    """A configured model cannot be used: it is not installed, or the provider does not have it."""


class EmbeddingFailed(ServiceError, status=502, title="Embedding failed"):
    """The embedding provider returned no usable vectors."""


class EmbeddingUnavailable(EmbeddingFailed, title="Embedding provider unavailable"):
    """The embedding provider cannot be reached, or responds with 5xx: the same request may succeed later."""


class EmbeddingRejected(EmbeddingFailed, title="Embedding rejected"):
    """The embedding provider rejects the request, such as a text that is too long, or the configured credentials."""


class EmbeddingRateLimited(ServiceError, status=503, title="Embedding provider busy"):
    """The embedding provider is at its rate limit.

    Args:
        detail: one sentence for the caller.
        seconds: when the provider accepts requests again, where it says so.
    """

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after = seconds


class TooManyEmbeddings(ServiceError, status=429, title="Too many embeddings", retry_after=1):
    """The key has its maximum number of requests that compute vectors or wait for them."""


class EmbeddingTimeout(ServiceError, status=504, title="Embedding timed out"):
    """The embedding provider did not respond in time."""


class SecretUnavailable(ServiceError, status=503, title="Secret unavailable"):
    """A secret that a configuration refers to cannot be read."""


class VaultUnavailable(SecretUnavailable, title="Vault unavailable"):
    """Vault cannot be reached, or responds with 5xx."""


class UpstreamUnreachable(ServiceError, status=502, title="Upstream unreachable"):
    """No connection to the upstream could be made, or it ended before the response."""


class UpstreamTimeout(ServiceError, status=504, title="Upstream timed out"):
    """The upstream did not respond in time."""


class UpstreamFailed(ServiceError, status=502, title="Upstream failed"):
    """The upstream's response is not one of HTTP, or breaks off, or is too large."""


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


class QueueFull(ServiceError, status=503, title="Queue full", retry_after=10):
    """Too many ingestions have not ended, or their documents are too large together."""


class BaseTooLarge(Conflict):
    """A knowledge base has more documents than may wait for ingestion, so a copy of them cannot be accepted."""


class FileStorageFull(ServiceError, status=413, title="File storage full"):
    """The uploaded files would be larger together than the settings allow."""


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


class RetrievalFailed(ServiceError, status=503, title="Retrieval failed", retry_after=1):
    """Retrieval failed, and the settings do not allow a chat without context."""


class AuditUnavailable(ServiceError, status=503, title="Audit unavailable", retry_after=1):
    """The audit ledger cannot be written, and the settings do not allow a chat without its entry."""


class AuditDamaged(ServiceError, status=500, title="Audit ledger damaged"):
    """An entry of the audit ledger cannot be read, because the database was changed."""


class TooManyVerifications(ServiceError, status=503, title="Too many verifications", retry_after=10):
    """A verification of the audit ledger is in progress."""


class VerificationTimeout(ServiceError, status=504, title="Verification timeout"):
    """The audit ledger is too long to be verified in a request."""


class ResponseNotFound(NotFound):
    """A response is not stored, or belongs to another key."""


class ConversationNotFound(NotFound):
    """There is no conversation of the requested id, or it has no steps that the key may see."""


class StepNotFound(NotFound):
    """The conversation has no step of the requested id of a request that the key may see."""


class TokenRateExceeded(ServiceError, status=429, title="Too many tokens"):
    """The key has used its tokens of this minute.

    Args:
        seconds: when a request is allowed again.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__("The key has used its tokens of this minute")
        self.retry_after = seconds


class TooManyStreams(ServiceError, status=429, title="Too many streams", retry_after=1):
    """The key has its maximum number of concurrent streams."""


class ExtractionFailed(ServiceError, status=422, title="Extraction failed"):
    """A document is damaged, or is not what it is declared to be, or its parser failed on it."""


class ExtractionTimeout(ServiceError, status=422, title="Extraction timed out"):
    """The extraction of a document's text took longer than the settings allow."""


class ExtractionUnavailable(ServiceError, status=503, title="Extraction unavailable", retry_after=1):
    """No process for the extraction could be started."""


class SplittingFailed(ServiceError, status=422, title="Splitting failed"):
    """A document's text cannot be split with the memory that a process may have."""


class SplittingTimeout(ServiceError, status=422, title="Splitting timed out"):
    """Splitting a document's text took longer than the settings allow."""


class TooManyChunks(ServiceError, status=422, title="Too many chunks"):
    """A document has more chunks than the settings allow."""


class DocumentTooLarge(ServiceError, status=413, title="Document too large"):
    """A document, its unpacked content or its text is larger than the settings allow, or needs more memory."""


class EncryptedDocument(ServiceError, status=422, title="Encrypted document"):
    """A document can be read only with a password."""


class NoText(ServiceError, status=422, title="No text"):
    """A document has no text, such as a scan without a text layer."""
