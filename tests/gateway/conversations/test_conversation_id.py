"""The conversation that a request names."""

from __future__ import annotations

import pytest
from msgspec import Raw

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.conversations.conversation_id import read_id


def test_the_header_names_the_conversation_and_precedes_the_metadata() -> None:
    metadata = Raw(b'{"conversation_id": "from-metadata", "other": "x"}')
    assert read_id([(b"x-conversation-id", b"from:header")], metadata) == "from:header"
    assert read_id([], metadata) == "from-metadata"
    assert read_id([(b"x-conversation-id", b"")], metadata) == "from-metadata"


@pytest.mark.parametrize("metadata", [None, Raw(b"null"), Raw(b"{}"), Raw(b'"text"'), Raw(b'{"conversation_id": 7}')])
def test_other_metadata_name_no_conversation(metadata: Raw | None) -> None:
    assert read_id([], metadata) == ""


@pytest.mark.parametrize("value", ["a b", "a/b", "..", "\u00e4", "x" * 201, "a\nb", "%41"])
def test_an_id_of_another_form_is_rejected_without_repeating_it(value: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_id([(b"x-conversation-id", value.encode("latin-1"))], None)
    assert raised.value.field_errors[0].path == "X-Conversation-Id"
    assert value not in raised.value.detail or value == ".."
