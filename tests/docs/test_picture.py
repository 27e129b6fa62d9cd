"""The picture of the architecture is drawn from its script, and shows the stack that the service makes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstore.app import create_backend, create_litestar, create_store
from ragstore.chroma.layers.layered_backend import LayeredBackend
from ragstore.settings import Settings
from ragstore.store.name_scope import NameScope
from ragstore.store.registry import StoreRegistry
from ragstore.store.scope import ScopedStore
from scripts import draw_gateway, draw_stack
from tests.support.pages import ROOT


def layers(outermost: object) -> Iterator[str]:
    """The names of a store or backend and of all that it wraps."""
    layer: object | None = outermost
    while layer is not None:
        if isinstance(layer, LayeredBackend):
            yield from (type(each).__name__ for each in layer.layers)
        else:
            yield type(layer).__name__
        layer = getattr(layer, "_inner", None) or getattr(layer, "backend", None)


def test_it_is_what_its_script_draws() -> None:
    assert draw_stack.PICTURE.read_text() == draw_stack.drawing(), "run: python scripts/draw_stack.py"


def test_its_stores_are_the_service_s_in_their_order() -> None:
    pool = create_litestar(Settings(chroma_url="http://chroma:8000")).on_startup[0].__self__  # type: ignore[union-attr]  # the pool's own start
    assert isinstance(pool, StoreRegistry)
    drawn = [name for group, name, _ in draw_stack.ROWS if group in ("stores", "backends")]
    made = list(layers(ScopedStore(pool.default_store(), NameScope(["*"]))))
    assert made[-1] == "HttpBackend"
    assert drawn == made[:-1]


def test_embedded_chroma_needs_no_protection_from_reads_beside_writes() -> None:
    of_both = [
        set(layers(create_store(settings))) for settings in (Settings(chroma_url="http://chroma:8000"), Settings())
    ]
    assert of_both[0] - of_both[1] == {"QuotaLayer", "ConsistentReadLayer", "HttpBackend"}


def test_its_backends_are_the_service_s() -> None:
    kinds = [create_backend(settings) for settings in (Settings(), Settings(chroma_url="http://chroma:8000"))]
    assert [name for name, _ in draw_stack.BACKENDS] == [type(kind).__name__ for kind in kinds]


def test_what_is_made_without_coalescing_and_planning_lacks_just_those() -> None:
    lean = list(layers(create_store(Settings(coalescing=False, planning=False))))
    assert set(layers(create_store(Settings()))) - set(lean) == {"BatchingStore", "FilterPlanningStore"}


def test_the_picture_of_the_gateway_is_drawn_from_the_layers_that_the_imports_are_checked_against() -> None:
    assert draw_gateway.PICTURE.read_text() == draw_gateway.drawing(), "run: python -m scripts.draw_gateway"


def test_the_picture_of_the_gateway_has_every_folder_and_module_of_it() -> None:
    shown = {name for layer in draw_gateway.layers() for name in layer}
    present = {
        path.stem for path in draw_gateway.PACKAGE.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"
    }
    assert shown == present - {"__init__"}


def test_the_page_of_traces_describes_each_span_of_the_gateway_in_the_picture_of_a_chat() -> None:
    shown = set(re.findall(r'x="\d+" y="\d+" fill="#111111">([^<]+)<', (ROOT / "docs/chat-trace.svg").read_text()))
    of_store = re.compile(r"chroma |POST /collections/|ragstore$")
    described = (ROOT / "docs/logs-and-traces.md").read_text()
    names = {name for name in shown if not of_store.match(name)} - {"ragstore_gateway"}
    assert len(names) >= 10
    assert [name for name in names if name not in described] == []
