"""Names have no characters that a reader does not see. Stored names stay readable."""

from __future__ import annotations

import msgspec
import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.name_characters import check_characters, in_one_line


@pytest.mark.parametrize(
    "character",
    [
        *"\0\n\r\x1b\x7f\x80\x85\x9f",
        *"\u2028\u2029",
        *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
        *"\u200b\u2060\ufeff\ufff9",
    ],
)
def test_a_character_that_nobody_sees_is_refused_and_left_out_of_headings(character: str) -> None:
    for name in (f"a{character}b", f"{character}b", f"a{character}"):
        with pytest.raises(InvalidRequest) as raised:
            check_characters(name, "$.name")
        assert [error.path for error in raised.value.field_errors] == ["$.name"]
        assert in_one_line(name) == name.replace(character, " ").strip()


@pytest.mark.parametrize(
    "name",
    ["Kessel & Töpfe", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u05ea\u05d4", "茶", "🫖", "a\u202fb"],
)
def test_names_of_all_languages_are_accepted(name: str) -> None:
    check_characters(name, "$.name")


def test_a_stored_configuration_with_an_older_name_is_read() -> None:
    assert msgspec.convert({"name": "a\u2028b\u202e"}, KnowledgeBase).name == "a\u2028b\u202e"
