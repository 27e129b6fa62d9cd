"""The budget of bytes of the gateway leaves memory to its child processes by default."""

from __future__ import annotations

import pytest

from ragstore import app as store
from ragstore.kit import service
from ragstore.settings import Settings as StoreSettings
from ragstore_gateway import app as gateway
from ragstore_gateway.settings import Settings

MIB = 1024**2


@pytest.fixture(autouse=True)
def container(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container of 1 GiB."""
    monkeypatch.setattr(service, "usable_memory_bytes", lambda: 1024 * MIB)


def test_the_gateway_takes_an_eighth_of_the_memory_and_the_store_a_quarter() -> None:
    assert gateway.SERVICE.budget_bytes(Settings()) == 128 * MIB
    assert store.SERVICE.budget_bytes(StoreSettings()) == 256 * MIB


def test_the_setting_takes_precedence() -> None:
    assert gateway.SERVICE.budget_bytes(Settings(max_bytes_in_flight=5)) == 5
