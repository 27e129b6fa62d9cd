"""The names on the pages exist: settings, targets of the Makefile, commands, files and other pages."""

from __future__ import annotations

import itertools
import re
from urllib.parse import unquote

import pytest

from ragstore import cli
from ragstore.settings import Settings, variable
from ragstore_gateway import settings as gateway
from ragstore_gateway.commands import cli as gateway_cli
from tests.support.pages import PAGES, ROOT, text_of

SETTINGS = {variable(name) for name in Settings.__struct_fields__}
GATEWAY_SETTINGS = {gateway.variable(name) for name in gateway.Settings.__struct_fields__} | gateway.ALIASES.keys()
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
OTHERS = {"RAGSTORE_URL", *gateway.CALLERS, *(f"RAGSTORE_{whose}API_KEY" for whose in ("", "SOURCE_", "TARGET_"))}
"""Variables of the clients and of what moves collections, not of the service."""


def linked(page: str) -> set[str]:
    """The pages that a page links."""
    targets = re.findall(r"\]\(([^)\s#]+\.md)[)#]", text_of(page))
    return {
        str((ROOT / page).parent.joinpath(target).resolve().relative_to(ROOT))
        for target in targets
        if "://" not in target
    }


def groups() -> dict[str, list[str]]:
    """The pages of each group of the index."""
    _, *parts = re.split(r"^## (.+)\n", text_of("docs/index.md"), flags=re.M)
    return {
        name: [
            str((ROOT / "docs" / link).resolve().relative_to(ROOT))
            for link in re.findall(r"^- \[.+?\]\((.+?)\)", links, flags=re.M)
        ]
        for name, links in zip(parts[::2], parts[1::2], strict=True)
    }


every_page = pytest.mark.parametrize("page", PAGES)


@every_page
def test_its_variables_are_settings(page: str) -> None:
    named = set(re.findall(r"RAGSTORE_[A-Z_]*[A-Z]", text_of(page)))
    assert named <= SETTINGS | GATEWAY_SETTINGS | OTHERS


@every_page
def test_its_targets_are_in_the_makefile(page: str) -> None:
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text_of(page), flags=re.M)) <= TARGETS


@every_page
def test_its_commands_are_the_service_s(page: str) -> None:
    named = set(re.findall(r"(?:`|bin/)ragstore ([a-z]+)", text_of(page)))
    assert named <= set(cli.main.commands)


@every_page
def test_its_commands_are_the_gateway_s(page: str) -> None:
    named = set(re.findall(r"(?:`|bin/)ragstore-gateway ([a-z]+)", text_of(page)))
    assert named <= set(gateway_cli.main.commands)


@every_page
def test_its_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if "://" not in target and not target.startswith(("#", "mailto:")):
            assert (ROOT / page).parent.joinpath(unquote(target.partition("#")[0])).exists(), target


@every_page
def test_it_is_reached_from_the_index(page: str) -> None:
    assert page in ["docs/index.md", *itertools.chain(*groups().values())]


def test_the_index_has_six_groups() -> None:
    assert list(groups()) == ["Start", "The store", "The gateway", "Operate", "Figures", "Work on it"]


@pytest.mark.parametrize("group", groups())
def test_the_first_page_of_a_group_links_the_others(group: str) -> None:
    first, *others = groups()[group]
    assert set(others) <= linked(first)
