"""The cost of one request for its key: tokens, and a stream in progress."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from http import HTTPStatus
from typing import Final, Self

import aiohttp
from multidict import CIMultiDict

from ragstore_gateway.chat.quotas import StreamQuota, TokenQuota
from ragstore_gateway.chat.relay import is_streamed
from ragstore_gateway.chat.upstream import Upstream
from ragstore_gateway.chat.usage import BYTES_PER_TOKEN, UsageMeter
from ragstore_gateway.errors import TooManyStreams, UpstreamFailed, UpstreamUnreachable
from ragstore_gateway.tenants.shared_quota import TenantRate

MAYBE_GENERATED: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.GATEWAY_TIMEOUT})
"""Error statuses after which a server behind the upstream may still generate, which costs money."""


class RequestCost:
    """Counts one request while its block runs.

    The estimate of the prompt is charged before the request is sent. At the end, it is corrected to what the upstream
    reports, or to an estimate of what was sent and received. It is given back if the upstream cannot have generated
    anything: the request was not sent, the connection was lost before a response, or the response is an error or a
    redirect without usage. A timeout, and a caller that leaves, give nothing back: the upstream may have generated
    until then.

    Args:
        tokens: tokens a minute.
        streams: concurrent streams.
        name: the key's name; empty without keys.
        body_bytes: size of the request's body.
        generates: whether the request makes a model work. Others cost no tokens.
        day: the tokens of the day of the key's tenant; None without a limit.
    """

    def __init__(
        self,
        tokens: TokenQuota,
        streams: StreamQuota,
        name: str,
        body_bytes: int,
        *,
        generates: bool = True,
        day: TenantRate | None = None,
    ) -> None:
        self._tokens = tokens
        self._streams = streams
        self._name = name
        self._reserved = self._prompt = body_bytes // BYTES_PER_TOKEN
        self._day = day
        self._meter = UsageMeter() if generates and (tokens.enabled or day is not None) else None
        self._slot = ExitStack()
        self._is_stream = False
        self._admitted = False
        self._admitted_today = False
        self._billable = False

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens are counted."""
        return self._meter is not None

    def count_stream(self) -> None:
        """Count a stream from now on.

        Raises:
            TooManyStreams: the key has its maximum.
        """
        if not self._is_stream:
            self._slot.enter_context(self._streams.slot(self._name))
            self._is_stream = True

    async def admit(self) -> None:
        """Charge the estimate.

        Raises:
            TenantTokensExceeded: the tenant of the key has too few tokens left.
            TokenRateExceeded: the key has too few tokens left.
        """
        if self._meter is not None:
            self._tokens.admit(self._name, self._reserved)
            self._admitted = True
            if self._day is not None:
                await self._day.take(self._reserved)
                self._admitted_today = True

    def sent(self, body_bytes: int) -> None:
        """The request is sent now.

        Args:
            body_bytes: size of the body that is sent, which may have passages that the caller's has not.
        """
        self._prompt = body_bytes // BYTES_PER_TOKEN
        self._billable = True

    def failed(self) -> None:
        """The upstream has not responded, and does not work on the request."""
        self._billable = False

    def responded(self, response: aiohttp.ClientResponse, *, decompressed: bool = False) -> None:
        """The head of a response has arrived.

        Args:
            decompressed: whether its chunks are decompressed.

        Raises:
            TooManyStreams: it is a stream, which the request did not say, and the key has its maximum.
        """
        self._billable = response.status < HTTPStatus.MULTIPLE_CHOICES or response.status in MAYBE_GENERATED
        if self._meter is not None and not decompressed:
            self._meter = UsageMeter(", ".join(response.headers.getall("Content-Encoding", ())))
        if is_streamed(response):
            self.count_stream()

    def feed(self, chunk: bytes) -> Generator[None, None, None]:
        """Count a chunk of the response, in steps."""
        if self._meter is not None:
            yield from self._meter.feed(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._slot.close()
        if self._meter is not None and self._admitted:
            total = self._meter.total(self._prompt) if self._billable else self._meter.reported or 0
            self._tokens.charge(self._name, total - self._reserved)
            if self._day is not None and self._admitted_today:
                self._day.charge(total - self._reserved)


async def send_counted(
    upstream: Upstream,
    cost: RequestCost,
    method: str,
    target: str,
    headers: CIMultiDict[str],
    body: bytes,
    *,
    decompress: bool = False,
) -> aiohttp.ClientResponse:
    """Send a request to the upstream, and count it; see `Upstream.send`.

    Args:
        cost: the cost of the caller's request.
        target: the path below the base URL with its query, encoded.
        decompress: whether to decompress the response's body.

    Raises:
        TooManyStreams: the response is a stream, which the request did not say, and the key has its maximum.
    """
    cost.sent(len(body))
    try:
        response = await upstream.send(method, target, headers, body, decompress=decompress)
    except (UpstreamUnreachable, UpstreamFailed):
        cost.failed()
        raise
    try:
        cost.responded(response, decompressed=decompress)
    except TooManyStreams:
        response.close()
        raise
    return response
