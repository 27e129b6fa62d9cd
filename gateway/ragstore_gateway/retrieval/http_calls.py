"""`HttpCalls`: sends the HTTP calls of assistants, through safe fetching, to hosts that the administrator allows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from ragstore.kit.errors import InvalidRequest, ServiceError
from ragstore.kit.tracing.spans import span
from ragstore_gateway.configurations.assistant import HttpCall
from ragstore_gateway.fetching.fetched import Fetched
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.fetching.rules import DEFAULT_PORTS, AllowedHosts, FetchRules
from ragstore_gateway.retrieval import metrics
from ragstore_gateway.retrieval.templates import Escape, in_form, in_header, in_json, in_text, in_url, render, sample
from ragstore_gateway.secrets.secret_references import SecretReferences

MAX_INPUT: Final = 2_000
"""Maximum number of characters of the question in a URL or a header; the rest is left out."""

MAX_BODY_INPUT: Final = 32_000
"""The same for a body."""

MAX_SECONDS: Final = 60.0
MAX_BYTES: Final = 10 * 1024 * 1024
MAX_CALLS: Final = 64
MAX_CALLS_PER_HOST: Final = 16

JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
ACCEPT: Final = "application/json, text/plain;q=0.9, */*;q=0.5"


class HttpCallFailed(Exception):
    """A call has no text for the context.

    Args:
        code: why, as a stable word.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class HttpCalls:
    """Sends HTTP calls. It works while the block of `running` runs.

    Redirects are not followed: the administrator allows hosts by name.

    Args:
        hosts: the hosts that may be called, as `host` or `host:port`.
        secrets: resolves references to secrets.

    Raises:
        ValueError: an entry has another form.
    """

    def __init__(self, hosts: Iterable[str], secrets: SecretReferences) -> None:
        self._hosts = AllowedHosts.parse(hosts)
        self._secrets = secrets
        self._fetcher = Fetcher(
            FetchRules(
                timeout_seconds=MAX_SECONDS,
                max_bytes=MAX_BYTES,
                max_redirects=0,
                max_fetches=MAX_CALLS,
                max_fetches_per_host=MAX_CALLS_PER_HOST,
                allowed=self._hosts,
                robots=False,
            )
        )

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Open the connections; close them at the end."""
        async with self._fetcher.running():
            yield

    def check(self, call: HttpCall, path: str) -> None:
        """Check a call when its configuration is written. Nothing is sent.

        Args:
            path: its JSON path.

        Raises:
            InvalidRequest: its host is not allowed, or its body is not JSON although its type is.
        """
        if not self._allows(call.url):
            raise InvalidRequest.at(
                f"{path}.url", "The host is not allowed: name it in RAGSTORE_GATEWAY_HTTP_CALL_HOSTS"
            )
        if call.body and _body_escape(call) is in_json:
            try:
                json.loads(sample(call.body))
            except ValueError:
                raise InvalidRequest.at(
                    f"{path}.body", "Must be JSON, with {userInput} within quotes; a header sets another type"
                ) from None

    async def text(self, call: HttpCall, question: str, timeout_seconds: float) -> str:
        """Send a call, and return the part of the response that its pointer selects.

        Args:
            timeout_seconds: maximum time; the call's own maximum if it is less.

        Raises:
            HttpCallFailed: there is no such text.
        """
        try:
            with span("http call", "client"):
                async with asyncio.timeout(min(timeout_seconds, call.timeout_seconds)):
                    text = _part(await self._send(call, question), call.pointer)
        except HttpCallFailed as error:
            metrics.http_call(error.code)
            raise
        except TimeoutError:
            metrics.http_call("timeout")
            raise HttpCallFailed("timeout") from None
        except ServiceError as error:
            metrics.http_call(error.code)
            raise HttpCallFailed(error.code) from None
        metrics.http_call("ok")
        return text

    async def _send(self, call: HttpCall, question: str) -> Fetched:
        if not self._allows(call.url):
            raise HttpCallFailed("host_not_allowed")
        url = await self._url(call, question[:MAX_INPUT])
        headers = {
            name: await render(value, question[:MAX_INPUT], in_header, self._secrets)
            for name, value in call.headers.items()
        }
        given = {name.lower() for name in headers}
        if "accept" not in given:
            headers["Accept"] = ACCEPT
        body = await render(call.body, question[:MAX_BODY_INPUT], _body_escape(call), self._secrets)
        if body and "content-type" not in given:
            headers["Content-Type"] = JSON_TYPE
        return await self._fetcher.fetch(
            url,
            method=call.method,
            headers=headers,
            body=body.encode("utf-8", "replace"),
            timeout_seconds=call.timeout_seconds,
            max_bytes=call.max_bytes,
            robots=False,
        )

    async def _url(self, call: HttpCall, question: str) -> str:
        url = await render(call.url, question, in_url, self._secrets)
        if any(unquote(segment) in (".", "..") for segment in urlsplit(url).path.split("/")):
            # Servers resolve such segments, encoded or not.
            raise HttpCallFailed("path_not_allowed")
        pairs = [
            f"{in_url(name)}={await render(value, question, in_url, self._secrets)}"
            for name, value in call.query.items()
        ]
        if not pairs:
            return url
        return url + ("&" if "?" in url else "?") + "&".join(pairs)

    def _allows(self, url: str) -> bool:
        try:
            parts = urlsplit(sample(url))
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return False
        host = (parts.hostname or "").removesuffix(".")
        return self._hosts.allows(host, port, DEFAULT_PORTS)


def _body_escape(call: HttpCall) -> Escape:
    """How values are written in the body, by its type."""
    types = [value.partition(";")[0].strip().lower() for name, value in call.headers.items() if _is_type(name)]
    kind = types[0] if types else JSON_TYPE
    if kind == FORM_TYPE:
        return in_form
    return in_json if kind == JSON_TYPE or kind.endswith("+json") else in_text


def _is_type(name: str) -> bool:
    return name.lower() == "content-type"


def _part(response: Fetched, pointer: str) -> str:
    """The part of a response that is used.

    Raises:
        HttpCallFailed: there is none.
    """
    if not response.ok:
        raise HttpCallFailed(f"status_{response.status}")
    if not pointer:
        if not response.charset and not response.media_type.endswith(("json", "xml")) and response.body:
            raise HttpCallFailed("not_text")
        return response.text.strip()
    try:
        value: object = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HttpCallFailed("not_json") from None
    for token in pointer.split("/")[1:]:
        value = _member(value, token.replace("~1", "/").replace("~0", "~"))
    if isinstance(value, str):
        return value.strip()
    return "" if value is None else msgspec.json.encode(value).decode()


def _member(value: object, name: str) -> object:
    """A member of an object, or an item of a list.

    Raises:
        HttpCallFailed: there is none.
    """
    if isinstance(value, Mapping) and name in value:
        return value[name]
    if isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
        return value[int(name[:9])]
    raise HttpCallFailed("pointer_not_found")
