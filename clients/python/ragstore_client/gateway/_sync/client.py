# Generated from _async/client.py by scripts/generate_sync_client.py: do not edit.
"""The synchronous client."""

from __future__ import annotations

from typing import TypeVar, Unpack

from ragstore_client._options import CallOptions
from ragstore_client._sync.service_client import ServiceClient
from ragstore_client.gateway import _calls as calls
from ragstore_client.gateway._configurations import Assistant, KnowledgeBase
from ragstore_client.gateway._models import Access
from ragstore_client.gateway._questions import QuestionSet
from ragstore_client.gateway._sync.configurations import Configurations
from ragstore_client.gateway._sync.documents import DocumentCalls
from ragstore_client.gateway._sync.ingest_calls import IngestCalls
from ragstore_client.gateway._sync.questions import QuestionRunCalls
from ragstore_client.gateway._sync.sources import SourceCalls

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8090"


class GatewayClient(DocumentCalls, IngestCalls, SourceCalls, QuestionRunCalls, ServiceClient):
    """A typed client of a ragstore-gateway. Threads may share it.

    Every call raises the errors of `ragstore_client`: `ProblemError` (`NotFound`, `Conflict`, ...) with its stable
    `code` when the gateway responds with an error, `TransportError` when no complete response was received, and
    `InvalidInput` when the arguments cannot be sent. Idempotent calls are retried according to `retries`. Every call
    also takes the options of `CallOptions` by name.

    Args:
        base_url: URL of the gateway; the variable `RAGSTORE_GATEWAY_URL` when None, and `http://127.0.0.1:8090` without
            it.
        api_key: sent as a bearer token; None for no key. The variable `RAGSTORE_GATEWAY_API_KEY` when not given.
        timeout: time limit of one attempt, in seconds. An `httpx.Timeout` limits steps; None limits none. When a file
            is sent, it limits each step.
        retries: the retry policy, or the number of retries; `RetryPolicy()` when None.
        headers: sent with every call.
        transport: the httpx transport; httpx's default when None.
        http: a client of httpx or httpx2 to use instead of a new one; the caller closes it.

    Raises:
        InvalidConfiguration: the URL, the key, the time limit or the retries are not valid.
    """

    _prefix = "RAGSTORE_GATEWAY_"
    _default_url = DEFAULT_URL

    @property
    def bases(self) -> Configurations[KnowledgeBase]:
        """The knowledge bases."""
        return Configurations(self, calls.BASES)

    @property
    def assistants(self) -> Configurations[Assistant]:
        """The assistants, each of which is a model `rag/NAME` of the chat API."""
        return Configurations(self, calls.ASSISTANTS)

    @property
    def question_sets(self) -> Configurations[QuestionSet]:
        """The question sets, each of which measures the searches of a base."""
        return Configurations(self, calls.QUESTION_SETS)

    def access(self, **options: Unpack[CallOptions]) -> Access:
        """Get the version of the gateway, its limits, and the rights of the client's key.

        Args:
            **options: see `CallOptions`.
        """
        return self._send(calls.access(), options)

    def request(
        self,
        method: str,
        path: str,
        response: type[T],
        *,
        body: object = None,
        idempotent: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> T:
        """Send a call that this client has no method for, with its key, its retries and its errors.

        Args:
            method: the HTTP method.
            path: the path below the base URL, percent-encoded, with the query string.
            response: the type of the response's JSON.
            body: the body, which is encoded as JSON; None for none.
            idempotent: whether the call may be sent twice; by default, whether the method is GET, PUT or DELETE.
            **options: see `CallOptions`.
        """
        repeats = method in ("GET", "PUT", "DELETE") if idempotent is None else idempotent
        return self._send(calls.request(method, path, body, response, idempotent=repeats), options)
