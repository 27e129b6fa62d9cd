"""The files of Swagger UI in the package equal the files of the npm package."""

from __future__ import annotations

from ragstore.kit.docs.page import MEDIA_TYPES, STATIC
from scripts.swagger_ui import HASHES, found


def test_the_files_of_swagger_ui_are_unchanged() -> None:
    assert found() == HASHES


def test_every_other_file_of_the_page_is_our_own() -> None:
    assert {each.name for each in STATIC.iterdir()} - HASHES.keys() == {"start.js"}
    assert MEDIA_TYPES.keys() <= {each.name for each in STATIC.iterdir()}
    assert {"LICENSE", "NOTICE"} <= HASHES.keys()
