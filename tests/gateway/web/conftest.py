"""Fixtures: a site on an address that tests treat as public, and an inner server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.web.fetchers import INNER, PUBLIC
from tests.support.fake_sites import FakeSite, fake_site


@pytest.fixture(scope="session")
def public_site() -> Iterator[FakeSite]:
    """A site on the address that tests treat as public."""
    with fake_site(PUBLIC) as site:
        yield site


@pytest.fixture(scope="session")
def inner_site() -> Iterator[FakeSite]:
    """A server on an address that no page may lead to."""
    with fake_site(INNER) as site:
        yield site


@pytest.fixture
def site(public_site: FakeSite) -> FakeSite:
    """The public site, without the requests of other tests."""
    public_site.requests.clear()
    return public_site


@pytest.fixture
def inner(inner_site: FakeSite) -> FakeSite:
    """The inner server, without the requests of other tests."""
    inner_site.requests.clear()
    return inner_site
