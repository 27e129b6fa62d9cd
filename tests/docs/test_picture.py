"""The picture of the architecture is drawn from its script, and shows the stack that the service makes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from types import ModuleType

import pytest

from docs.pages import ROOT
from ragstore.app import create_backend, create_litestar, create_store
from ragstore.security.stores import StorePool
from ragstore.settings import Settings
from ragstore.store.scoped import ScopedStore


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    """The script that draws it."""
    spec = importlib.util.spec_from_file_location("draw_stack", ROOT / "docs" / "draw_stack.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def layers(outermost: object) -> Iterator[str]:
    """The names of a store or backend and of all that it wraps."""
    layer: object | None = outermost
    while layer is not None:
        yield type(layer).__name__
        layer = getattr(layer, "_inner", None) or getattr(layer, "_backend", None)


def test_it_is_what_its_script_draws(picture: ModuleType) -> None:
    assert picture.PICTURE.read_text() == picture.drawing(), "run: python docs/draw_stack.py"


def test_its_stores_are_the_service_s_in_their_order(picture: ModuleType) -> None:
    pool = create_litestar(Settings(chroma_url="http://chroma:8000")).on_startup[0].__self__  # type: ignore[union-attr]  # the pool's own start
    assert isinstance(pool, StorePool)
    drawn = [name for group, name, _ in picture.ROWS if group in ("stores", "backends")]
    made = list(layers(ScopedStore(pool.own(), ["*"])))
    assert made[-1] == "HttpBackend"
    assert drawn == made[:-1]


def test_embedded_chroma_needs_no_protection_from_reads_beside_writes() -> None:
    of_both = [
        set(layers(create_store(settings))) for settings in (Settings(chroma_url="http://chroma:8000"), Settings())
    ]
    assert of_both[0] - of_both[1] == {"UntornBackend", "HttpBackend"}


def test_its_backends_are_the_service_s(picture: ModuleType) -> None:
    kinds = [create_backend(settings) for settings in (Settings(), Settings(chroma_url="http://chroma:8000"))]
    assert [name for name, _ in picture.BACKENDS] == [type(kind).__name__ for kind in kinds]


def test_what_is_made_without_coalescing_and_planning_lacks_just_those() -> None:
    lean = list(layers(create_store(Settings(coalescing=False, planning=False))))
    assert set(layers(create_store(Settings()))) - set(lean) == {"CoalescingStore", "PlanningStore"}
