"""HTTP requests to a running gateway, for the commands."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self, TypeVar

import httpx
import msgspec

from ragstore_gateway.settings import KEY_VARIABLE

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 600.0


class GatewayFailed(Exception):
    """The gateway cannot be reached, or responds with an error. The message is one line for people.

    Attributes:
        status: the status of the response; 0 without one.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Problem(msgspec.Struct):
    """A problem document, as far as the commands need it."""

    detail: str = ""
    code: str = ""


class GatewayConnection:
    """A connection to a gateway. A context manager.

    Args:
        url: its address. The key comes from the environment.
    """

    def __init__(self, url: str) -> None:
        self.key = os.environ.get(KEY_VARIABLE, "")
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def call(
        self, method: str, path: str, body: object = None, params: Mapping[str, str | int] | None = None
    ) -> httpx.Response:
        """Send a request with a JSON body, or without one.

        Args:
            body: the body; None for none.
            params: parameters of the query.

        Raises:
            GatewayFailed: there is no response, or it is an error.
        """
        return checked(await self._send(self._http.build_request(method, path, json=body, params=params)))

    async def upload(
        self, path: str, content: bytes, media_type: str, params: Mapping[str, str | int]
    ) -> httpx.Response:
        """Send content.

        Args:
            params: parameters of the query.

        Returns:
            The response, which may be an error.

        Raises:
            GatewayFailed: there is no response.
        """
        headers = {"Content-Type": media_type}
        return await self._send(self._http.build_request("POST", path, content=content, headers=headers, params=params))

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._http.send(request)
        except httpx.HTTPError as error:
            raise GatewayFailed(
                f"The gateway at {self._http.base_url} cannot be reached: {type(error).__name__}"
            ) from None


def checked(response: httpx.Response) -> httpx.Response:
    """A response that is no error.

    Raises:
        GatewayFailed: it is an error.
    """
    if response.is_success:
        return response
    request = response.request
    message = f"{request.method} {request.url.path}: {response.status_code} {problem(response).detail}"
    raise GatewayFailed(message.strip(), response.status_code)


def problem(response: httpx.Response) -> Problem:
    """The problem document of an error; an empty one if it has none.

    Args:
        response: the error.
    """
    try:
        return msgspec.json.decode(response.content, type=Problem)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Problem()


def decoded(response: httpx.Response, kind: type[T]) -> T:
    """The body of a response.

    Args:
        kind: the type of its body.

    Raises:
        GatewayFailed: it has another form.
    """
    try:
        return msgspec.json.decode(response.content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise GatewayFailed("The gateway's response has another form: is it a ragstore-gateway?") from None
