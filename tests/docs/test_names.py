"""The names on the pages exist: settings, targets of the Makefile, commands, files and other pages."""

from __future__ import annotations

import re
from urllib.parse import unquote

import msgspec
import pytest

from ragstore import cli
from ragstore.settings import Settings, variable
from ragstore_gateway import settings as gateway
from ragstore_gateway.commands import cli as gateway_cli
from scripts.settings_table import DOCS, table
from scripts.settings_table import PAGES as TABLES
from tests.support.pages import PAGES, ROOT, text_of

SETTINGS = {variable(name) for name in Settings.__struct_fields__}
GATEWAY_SETTINGS = {gateway.variable(name) for name in gateway.Settings.__struct_fields__}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
OTHERS = {"RAGSTORE_URL", *gateway.CALLERS, *(f"RAGSTORE_{whose}API_KEY" for whose in ("", "SOURCE_", "TARGET_"))}
"""Variables of the clients and of what moves collections, not of the service."""

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
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", text_of("docs/index.md"), flags=re.M)
    assert page in ["docs/index.md", *(str((ROOT / "docs" / link).resolve().relative_to(ROOT)) for link in listed)]


@pytest.mark.parametrize(("page", "kind", "prefix"), TABLES)
def test_a_settings_table_is_the_code_s(page: str, kind: type[msgspec.Struct], prefix: str) -> None:
    assert table(kind, prefix) in (DOCS / page).read_text(), "run: python -m scripts.settings_table"
