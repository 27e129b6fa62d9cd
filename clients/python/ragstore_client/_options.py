"""The options of calls: time limits, retries, headers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

import httpx
import msgspec

from ragstore_client._exceptions import InvalidConfiguration, InvalidInput
from ragstore_client._httpx import Timeout, parse_timeout
from ragstore_client._retries import RetryPolicy, parse_retries

MAX_REQUEST_ID = 128


class CallOptions(TypedDict, total=False):
    """Options that every call takes, and `with_options` for several calls. One that is absent is the client's.

    Attributes:
        timeout: time limit of one attempt: seconds, an `httpx.Timeout`, or None for no limit.
        deadline: seconds for the call as a whole, with all retries and the waits between them.
        retries: the retry policy, or the number of retries.
        headers: further headers.
        request_id: id under which the service logs the request, as `X-Request-ID`.
    """

    timeout: float | httpx.Timeout | None
    deadline: float | None
    retries: RetryPolicy | int | None
    headers: Mapping[str, str] | None
    request_id: str


NO_OPTIONS = CallOptions()
"""The options of a call that has none of its own."""


class Options(msgspec.Struct, frozen=True):
    """The options in effect. See `CallOptions`."""

    timeout: Timeout
    retries: RetryPolicy
    headers: dict[str, str]
    deadline: float | None = None

    def override(self, options: CallOptions) -> Options:
        """These options with others in their stead.

        Args:
            options: the others.

        Raises:
            TypeError: an option has a name that does not exist.
            InvalidConfiguration: a time limit or the retries are not valid.
            InvalidInput: a header cannot be sent.
        """
        if not options:
            return self
        if unknown := options.keys() - CallOptions.__optional_keys__:
            raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
        headers = {**self.headers, **parse_headers(options.get("headers"))}
        if "request_id" in options:
            headers |= parse_headers({"x-request-id": options["request_id"]})
        return Options(
            parse_timeout(options["timeout"]) if "timeout" in options else self.timeout,
            parse_retries(options["retries"]) if "retries" in options else self.retries,
            headers,
            _parse_deadline(options["deadline"]) if "deadline" in options else self.deadline,
        )


def parse_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Parse headers.

    Args:
        headers: names and values.

    Returns:
        The headers, with names in lower case.

    Raises:
        InvalidInput: a name or a value is no string, or HTTP cannot carry it; the text repeats no value.
    """
    parsed = {}
    given: Mapping[object, object] = headers or {}  # type: ignore[assignment]  # validated here
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput("the names and values of headers must be strings")
        if not name or not name.isascii() or not (value.isascii() and (value.isprintable() or not value)):
            raise InvalidInput(f"the header {name!r} cannot be sent: names and values are printable ASCII")
        if name.lower() == "x-request-id" and not 0 < len(value) <= MAX_REQUEST_ID:
            raise InvalidInput(f"a request id has 1 to {MAX_REQUEST_ID} characters")
        parsed[name.lower()] = value
    return parsed


def _parse_deadline(deadline: object) -> float | None:
    if deadline is None:
        return None
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 < deadline < math.inf:
        raise InvalidConfiguration("deadline must be a number of seconds greater than 0, or None")
    return float(deadline)
