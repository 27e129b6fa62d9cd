"""How calls are carried out synchronously: each try within its time, as often as the policy says."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TypeVar

import httpx

from ragstore_client._call import Call
from ragstore_client._endpoint import Endpoint, timeout_error, transport_error
from ragstore_client._exceptions import NotFound, RagstoreError, describe
from ragstore_client._responses import parse_response
from ragstore_client._retries import RetryPolicy

T = TypeVar("T")

logger = logging.getLogger("ragstore_client")


class Transport:
    """Carries out calls on one endpoint.

    Args:
        http: what sends requests; closing it stays the caller's.
        endpoint: where to.
        timeout: seconds for one try.
        retries: when to try again.
        headers: sent with every call.
    """

    def __init__(
        self,
        http: httpx.Client,
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

    def send(self, call: Call[T]) -> T:
        """Carry out a call, as often as the policy says.

        Args:
            call: what to ask.

        Returns:
            The answer.

        Raises:
            RagstoreError: what the last try ended in.
        """
        retrying = self._retries.start(idempotent=call.idempotent)
        headers = self._endpoint.headers(self._headers)
        while True:
            try:
                return self._attempt(call, headers)
            except NotFound:
                if call.result_if_gone is not None and retrying.maybe_applied:
                    return call.result_if_gone
                raise
            except RagstoreError as error:
                wait = retrying.wait_after(error)
                if wait is None:
                    raise
                logger.info("%s %s: %s, again in %.2f s", call.method, call.path, describe(error), wait)
            time.sleep(wait)

    def _attempt(self, call: Call[T], headers: Mapping[str, str]) -> T:
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
            response = self._http.send(request, stream=True)
            try:
                body = self._body(response, started + self._timeout)
            finally:
                response.close()
        except httpx.HTTPError as error:
            raise transport_error(error, self._timeout) from None
        took = (time.monotonic() - started) * 1000
        logger.debug("%s %s: %d in %.1f ms", call.method, call.path, response.status_code, took)
        return parse_response(call, response.status_code, response.headers, body)

    def _body(self, response: httpx.Response, deadline: float) -> bytes:
        # httpx limits the wait for each piece; a sender of one byte a second would never exceed that.
        pieces = []
        for piece in response.iter_bytes():
            pieces.append(piece)
            if time.monotonic() > deadline:
                raise timeout_error(self._timeout)
        return b"".join(pieces)
