"""The state of a request, which a connection that stays open keeps after the response."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from ragstore.kit.context import begin_request, record_error
from ragstore.kit.errors import InvalidRequest


class Body:
    """The body of a request."""


def reject(body: Body) -> None:
    raise InvalidRequest("It is too long")


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Objects are freed when the last reference to them goes, and not otherwise."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
async def test_the_body_of_a_rejected_request_is_freed_with_its_response() -> None:
    # In the task of this test: later tests would be within the request otherwise.
    request = begin_request("a")
    body = Body()
    freed = weakref.ref(body)
    try:
        reject(body)
    except InvalidRequest as error:
        record_error(error)
    del body

    assert freed() is None
    assert request.failure == {"code": "invalid_request", "problem": "It is too long"}
