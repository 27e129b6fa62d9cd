"""The budget of bytes of the gateway leaves memory to its child processes by default."""

from __future__ import annotations

import pytest

from ragstore import app as store
from ragstore.kit import service
from ragstore.settings import Settings as StoreSettings
from ragstore_gateway import app as gateway
from ragstore_gateway.settings import Settings

MIB = 1024**2


def have_memory(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A container of a size."""
    monkeypatch.setattr(service, "usable_memory_bytes", lambda: size)


def test_the_gateway_takes_an_eighth_of_the_memory_and_the_store_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    have_memory(monkeypatch, 2048 * MIB)
    assert gateway.SERVICE.budget_bytes(Settings()) == 256 * MIB
    assert store.SERVICE.budget_bytes(StoreSettings()) == 512 * MIB


@pytest.mark.parametrize(("memory", "budget"), [(1280, 160), (1024, 96), (768, 48), (512, 32)])
def test_the_gateway_takes_less_of_a_small_container_whose_memory_its_models_need(
    monkeypatch: pytest.MonkeyPatch, memory: int, budget: int
) -> None:
    have_memory(monkeypatch, memory * MIB)
    assert gateway.SERVICE.budget_bytes(Settings()) == budget * MIB


def test_the_setting_takes_precedence() -> None:
    assert gateway.SERVICE.budget_bytes(Settings(max_bytes_in_flight=5)) == 5
