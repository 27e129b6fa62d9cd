"""The names on the pages exist: settings, targets of the Makefile, commands, files and other pages."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

from ragstore import cli
from ragstore.settings import Settings, variable
from scripts.settings_table import PAGE, table
from tests.support.pages import PAGES, ROOT, text_of

SETTINGS = {variable(name) for name in Settings.__struct_fields__}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
OTHERS = {"RAGSTORE_URL", *(f"RAGSTORE_{whose}API_KEY" for whose in ("", "SOURCE_", "TARGET_"))}
"""Variables of the clients and of what moves collections, not of the service."""

every_page = pytest.mark.parametrize("page", PAGES)


@every_page
def test_its_variables_are_settings(page: str) -> None:
    named = set(re.findall(r"RAGSTORE_[A-Z_]*[A-Z]", text_of(page)))
    assert named <= SETTINGS | OTHERS


@every_page
def test_its_targets_are_in_the_makefile(page: str) -> None:
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text_of(page), flags=re.M)) <= TARGETS


@every_page
def test_its_commands_are_the_service_s(page: str) -> None:
    named = set(re.findall(r"(?:`|bin/)ragstore ([a-z]+)", text_of(page)))
    assert named <= set(cli.main.commands)


@every_page
def test_its_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if "://" not in target and not target.startswith(("#", "mailto:")):
            assert (ROOT / page).parent.joinpath(unquote(target.partition("#")[0])).exists(), target


@every_page
def test_it_is_reached_from_the_index(page: str) -> None:
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", text_of("docs/index.md"), flags=re.M)
    assert page in ["docs/index.md", *(str((ROOT / "docs" / link).resolve().relative_to(ROOT)) for link in listed)]


def test_the_settings_table_is_the_code_s() -> None:
    assert table() in PAGE.read_text(), "run: python scripts/settings_table.py"


def test_every_setting_is_described() -> None:
    for field in Settings.__struct_fields__:
        assert f"| `{variable(field)}` |" in table()
