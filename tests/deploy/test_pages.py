"""What the pages about running it name exists."""

from __future__ import annotations

import re

import pytest

from deploy.dockerfile import ROOT
from ragstore.settings import Settings, variable

PAGES = ("docs/scaling.md", "CONTRIBUTING.md", "SECURITY.md")
SETTINGS = {variable(name) for name in Settings.__struct_fields__}


@pytest.mark.parametrize("page", PAGES)
def test_its_variables_are_settings(page: str) -> None:
    assert set(re.findall(r"RAGSTORE_[A-Z_]+", (ROOT / page).read_text())) <= SETTINGS


@pytest.mark.parametrize("page", PAGES)
def test_its_targets_are_in_the_makefile(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / page).read_text(), flags=re.M)) <= targets
