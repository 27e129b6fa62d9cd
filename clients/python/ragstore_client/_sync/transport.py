# Generated from _async/transport.py by scripts/generate_sync_client.py: do not edit.
"""Sends calls: each attempt within the time limit, as many attempts as the retry policy allows."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping
from typing import IO, TypeGuard, TypeVar

import httpx

from ragstore_client._call import Call
from ragstore_client._endpoint import Endpoint
from ragstore_client._exceptions import NotFound, RagstoreError, TransportError, describe
from ragstore_client._httpx import Timeout, from_httpx_error, http_errors, parse_timeout, timeout_error
from ragstore_client._options import NO_OPTIONS, CallOptions, Options, parse_headers
from ragstore_client._responses import parse_response
from ragstore_client._retries import RetryPolicy, RetryState, parse_retries
from ragstore_client._sync.runtime import fetch, file_parts, in_thread, sleep

T = TypeVar("T")

logger = logging.getLogger("ragstore_client")

_MIN_ATTEMPT_SECONDS = 0.001


class Transport:
    """Sends calls to one endpoint, and owns their retries.

    Args:
        http: the httpx client that sends requests; the caller closes it.
        endpoint: the service.
        timeout: time limit of one attempt: seconds, an `httpx.Timeout`, or None for no limit.
        retries: the retry policy, or a number of retries.
        headers: sent with every call.
        of_ragstore: whether the endpoint should be a ragstore service; an error then says if it is not.
    """

    def __init__(
        self,
        http: httpx.Client,
        endpoint: Endpoint,
        *,
        timeout: float | httpx.Timeout | None,
        retries: RetryPolicy | int | None,
        headers: Mapping[str, str] | None = None,
        of_ragstore: bool = False,
    ) -> None:
        self._http = http
        self._endpoint = endpoint
        self._options = Options(parse_timeout(timeout), parse_retries(retries), parse_headers(headers))
        self._of_ragstore = of_ragstore

    @property
    def retries(self) -> RetryPolicy:
        """The retry policy."""
        return self._options.retries

    def with_options(self, options: CallOptions) -> Transport:
        """A transport with other options, over the same connections."""
        transport = object.__new__(Transport)
        transport._http, transport._endpoint, transport._of_ragstore = self._http, self._endpoint, self._of_ragstore
        transport._options = self._options.override(options)
        return transport

    def send(self, call: Call[T], options: CallOptions = NO_OPTIONS) -> T:
        """Send a call, with retries.

        Args:
            options: options of this call.

        Returns:
            The decoded response.

        Raises:
            RagstoreError: the error of the last attempt.
        """
        effective = self._options.override(options)
        state = effective.retries.start(idempotent=call.idempotent)
        headers = self._endpoint.headers(effective.headers)
        while True:
            try:
                return self._attempt(call, headers, _limit(effective, state, call))
            except NotFound as error:
                if call.result_if_gone is not None and state.maybe_applied:
                    return call.result_if_gone
                self._describe(error, call, state)
                raise
            except RagstoreError as error:
                self._describe(error, call, state)
                delay = state.next_delay(error)
                if delay is None or (effective.deadline or math.inf) <= state.elapsed_seconds + delay:
                    raise
                logger.info("%s %s: %s, retrying in %.2f s", call.method, call.path, describe(error), delay)
            sleep(delay)

    def _attempt(self, call: Call[T], headers: Mapping[str, str], limit: Timeout) -> T:
        started = time.monotonic()
        if call.accept is not None:
            headers = {**headers, "accept": call.accept}
        if call.body is not None:
            headers = {**headers, "content-type": call.content_type}
        size = 0
        if _is_file(call.body):
            size = in_thread(call.body.seek, 0, os.SEEK_END)
            headers = {**headers, "content-length": str(size)}
        request = self._http.build_request(
            call.method,
            self._endpoint.url + call.path,
            params=call.params or None,
            content=file_parts(call.body, size) if _is_file(call.body) else call.body,
            headers=headers,
            timeout=limit.step_timeouts,
        )
        try:
            response, body = fetch(self._http, request, limit.total_seconds)
        except TimeoutError as error:
            raise timeout_error(limit.total_seconds or 0.0) from error
        except http_errors() as error:
            raise from_httpx_error(error, limit) from error
        duration = (time.monotonic() - started) * 1000
        logger.debug("%s %s: %d in %.1f ms", call.method, call.path, response.status_code, duration)
        return parse_response(call, response.status_code, response.headers, body, of_ragstore=self._of_ragstore)

    def _describe(self, error: RagstoreError, call: Call[T], state: RetryState) -> None:
        error.method, error.url = call.method, self._endpoint.url + call.path
        if isinstance(error, TransportError):
            error.attempts, error.elapsed_seconds = state.attempt, state.elapsed_seconds


def _is_file(body: bytes | IO[bytes] | None) -> TypeGuard[IO[bytes]]:
    return body is not None and not isinstance(body, bytes)


def _limit(options: Options, state: RetryState, call: Call[T]) -> Timeout:
    """The time limit of the next attempt: the deadline may leave less than the time limit of an attempt.

    An attempt that sends a file has no limit of its own as a whole: it takes longer the larger the file is. The limits
    of its steps apply to each part.
    """
    total = None if _is_file(call.body) else options.timeout.total_seconds
    if options.deadline is None:
        return Timeout(total, options.timeout.steps)
    remaining = max(options.deadline - state.elapsed_seconds, _MIN_ATTEMPT_SECONDS)
    return parse_timeout(remaining if total is None else min(total, remaining))
