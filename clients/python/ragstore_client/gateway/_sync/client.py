# Generated from _async/client.py by scripts/generate_sync_client.py: do not edit.
"""The synchronous client."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack, cast

import httpx
from msgspec import UNSET, UnsetType

from ragstore_client._call import Call
from ragstore_client._endpoint import endpoint_of_client
from ragstore_client._httpx import parse_timeout, ssl_context
from ragstore_client._options import NO_OPTIONS, CallOptions
from ragstore_client._retries import RetryPolicy
from ragstore_client._sync.transport import Transport
from ragstore_client.gateway import _calls as calls
from ragstore_client.gateway._configurations import Assistant, KnowledgeBase
from ragstore_client.gateway._models import Access
from ragstore_client.gateway._questions import QuestionSet
from ragstore_client.gateway._sync.configurations import Configurations
from ragstore_client.gateway._sync.documents import DocumentCalls
from ragstore_client.gateway._sync.ingest_calls import IngestCalls
from ragstore_client.gateway._sync.questions import QuestionRunCalls
from ragstore_client.gateway._sync.sources import SourceCalls

if TYPE_CHECKING:
    from ragstore_client._httpx import HttpClient

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8090"


class GatewayClient(DocumentCalls, IngestCalls, SourceCalls, QuestionRunCalls):
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

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | UnsetType | None = UNSET,
        timeout: float | httpx.Timeout | None = 30.0,
        retries: RetryPolicy | int | None = None,
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        http: HttpClient | None = None,
    ) -> None:
        self._endpoint = endpoint_of_client(base_url, api_key, prefix="RAGSTORE_GATEWAY_", default_url=DEFAULT_URL)
        self._owns_http = http is None
        steps = parse_timeout(timeout).steps
        own = http or httpx.Client(timeout=steps, transport=transport, verify=ssl_context())
        # The interface of httpx2 is the same.
        self._http = cast("httpx.Client", own)
        self._transport = Transport(
            self._http, self._endpoint, timeout=timeout, retries=retries, headers=headers, of_ragstore=True
        )

    @property
    def base_url(self) -> str:
        """URL of the gateway, without user and password."""
        return self._endpoint.url

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

    def __repr__(self) -> str:
        """The class and the URL."""
        return f"{type(self).__name__}({self.base_url!r})"

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """A client with other options, for one call or some: `client.with_options(timeout=2).search(...)`.

        Args:
            **options: see `CallOptions`; headers are added to this client's, every other option replaces this client's.

        Returns:
            A client that shares the connections of this one, which need not be closed.
        """
        client = copy.copy(self)
        client._owns_http = False
        client._transport = self._transport.with_options(options)
        return client

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

    def close(self) -> None:
        """Close the connections, unless `http` was given. The client cannot be used afterwards."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, call: Call[T], options: CallOptions = NO_OPTIONS) -> T:
        return self._transport.send(call, options)

    def _lasting(self, seconds: float, options: CallOptions) -> Self:
        """This client with options, and with retries that last for some time."""
        client = self.with_options(**options)
        if "retries" in options:
            return client
        return client.with_options(retries=client._transport.retries.lasting(seconds))
