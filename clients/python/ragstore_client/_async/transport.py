"""Sends calls: each attempt within the time limit, as many attempts as the retry policy allows."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TypeVar

import httpx

from ragstore_client._async.runtime import fetch, sleep
from ragstore_client._call import Call
from ragstore_client._endpoint import Endpoint
from ragstore_client._exceptions import NotFound, RagstoreError, describe
from ragstore_client._httpx import from_httpx_error, timeout_error
from ragstore_client._responses import parse_response
from ragstore_client._retries import RetryPolicy

T = TypeVar("T")

logger = logging.getLogger("ragstore_client")


class AsyncTransport:
    """Sends calls to one endpoint, and owns their retries.

    Args:
        http: the httpx client that sends requests; the caller closes it.
        endpoint: the service.
        timeout: time limit of one attempt, in seconds.
        retries: the retry policy.
        headers: sent with every call.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        endpoint: Endpoint,
        *,
        timeout: float,
        retries: RetryPolicy,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._http = http
        self._endpoint = endpoint
        self._timeout = timeout
        self._retries = retries
        self._headers = dict(headers or {})

    def with_options(
        self, *, timeout: float | None, retries: RetryPolicy | None, headers: Mapping[str, str] | None
    ) -> AsyncTransport:
        """A transport with other options, over the same connections.

        Args:
            timeout: time limit of one attempt, in seconds; this one's when None.
            retries: the retry policy; this one's when None.
            headers: sent in addition to this one's.
        """
        return AsyncTransport(
            self._http,
            self._endpoint,
            timeout=self._timeout if timeout is None else timeout,
            retries=retries or self._retries,
            headers={**self._headers, **(headers or {})},
        )

    async def send(self, call: Call[T]) -> T:
        """Send a call, with retries.

        Args:
            call: the call.

        Returns:
            The decoded response.

        Raises:
            RagstoreError: the error of the last attempt.
        """
        state = self._retries.start(idempotent=call.idempotent)
        headers = self._endpoint.headers(self._headers)
        while True:
            try:
                return await self._attempt(call, headers)
            except NotFound:
                if call.result_if_gone is not None and state.maybe_applied:
                    return call.result_if_gone
                raise
            except RagstoreError as error:
                delay = state.next_delay(error)
                if delay is None:
                    raise
                logger.info("%s %s: %s, retrying in %.2f s", call.method, call.path, describe(error), delay)
            await sleep(delay)

    async def _attempt(self, call: Call[T], headers: Mapping[str, str]) -> T:
        started = time.monotonic()
        request = self._http.build_request(
            call.method,
            self._endpoint.url + call.path,
            params=call.params or None,
            content=call.body,
            headers=headers if call.body is None else {**headers, "content-type": "application/json"},
            timeout=self._timeout,
        )
        try:
            response, body = await fetch(self._http, request, self._timeout)
        except TimeoutError:
            raise timeout_error(self._timeout) from None
        except httpx.HTTPError as error:
            raise from_httpx_error(error, self._timeout) from None
        duration = (time.monotonic() - started) * 1000
        logger.debug("%s %s: %d in %.1f ms", call.method, call.path, response.status_code, duration)
        return parse_response(call, response.status_code, response.headers, body)
