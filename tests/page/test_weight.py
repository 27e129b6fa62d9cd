"""The weight of the page, and its requests."""

from __future__ import annotations

import re
from typing import Final

from ragstore.kit.page.built_files import INDEX, built_files
from tests.page.conftest import OpenTab
from tests.page.data import LARGE
from tests.support.servers import Served

SHELL_BYTES: Final = 25_000
AREA_BYTES: Final = 42_000
ALL_BYTES: Final = 84_000
MAP_BYTES: Final = 6_500
FILES_BYTES: Final = 400_000
REQUESTS: Final = 10
AREAS: Final = 7


def test_the_shell_is_light() -> None:
    files = built_files()
    index = files[INDEX].content.decode()
    loaded = re.findall(r'(?:href|src)="([\w-]+\.(?:js|css))"', index)

    assert sum(len(files[name].compressed) for name in {INDEX, *loaded}) <= SHELL_BYTES


def loaded_with(name: str) -> set[str]:
    """A built script, and the scripts that it imports before it runs."""
    found = {name}
    for imported in re.findall(r'from"\./([\w-]+\.js)"|import"\./([\w-]+\.js)"', built_files()[name].content.decode()):
        found |= {each for part in imported if part for each in loaded_with(part)}
    return found


def test_the_shell_and_any_area_are_light() -> None:
    files = built_files()
    index = files[INDEX].content.decode()
    shell = {INDEX, *re.findall(r'(?:href|src)="([\w-]+\.(?:js|css))"', index)}
    areas = [name for name in files if re.match(r"(?!chunk-|shell-|map-)[a-z]+-\w+\.js$", name)]

    weights = {area: sum(len(files[name].compressed) for name in shell | loaded_with(area)) for area in areas}
    assert len(weights) >= AREAS
    assert {area: weight for area, weight in weights.items() if weight > AREA_BYTES} == {}


def test_the_map_is_light_and_loaded_when_it_is_shown(open_tab: OpenTab, store: Served) -> None:
    (name,) = [name for name in built_files() if name.startswith("map-")]
    assert len(built_files()[name].compressed) <= MAP_BYTES
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00000")
    assert not [each for each in tab.requests if name in each]
    tab.page.get_by_role("link", name="Map").click()
    tab.page.locator("canvas").wait_for()
    assert [each for each in tab.requests if name in each]


def test_all_areas_together_are_light() -> None:
    files = built_files().values()

    assert sum(len(each.compressed) for each in files) <= ALL_BYTES
    assert sum(len(each.compressed) + len(each.content) for each in files) <= FILES_BYTES


def test_the_first_screen_takes_few_requests(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url)
    tab.see(LARGE)

    assert len(tab.requests) <= REQUESTS


def test_the_list_of_many_documents_takes_few_requests(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00000")

    assert len(tab.requests) <= REQUESTS
