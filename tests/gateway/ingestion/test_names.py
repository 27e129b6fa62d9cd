"""The names of documents that come from URLs."""

from __future__ import annotations

import re

import pytest

from ragstore_gateway.ingestion.names import MAX_NAME, NAME, checked_name, name_of_url


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.org/tea/", "https://example.org/tea"),
        ("https://example.org", "https://example.org"),
        ("https://example.org/a/../b/./c?page=1", "https://example.org/b/c?page=1"),
        ("https://example.org/../../b", "https://example.org/b"),
        ("https://example.org/a/..", "https://example.org"),
        ("https://example.org/a//b", "https://example.org/a//b"),
        ("https://example.org/a?next=/../b/.", "https://example.org/a?next=/%2E%2E/b/%2E"),
        ("https://example.org?next=/..#/../c", "https://example.org/?next=/..#/%2E%2E/c"),
        ("file:///a/../%20../b", "%2E%2E/b"),
        ("file:///notes/../tea%0Acups.txt", "tea%0Acups.txt"),
        ("file:///tea%E2%80%AEtxt.exe", "tea%E2%80%AEtxt.exe"),
    ],
)
def test_the_document_of_a_url_has_a_name_that_the_gateway_accepts(url: str, name: str) -> None:
    assert name_of_url(url) == name
    assert checked_name(name) == name
    assert re.match(NAME, name)


def test_two_long_urls_with_the_same_end_are_two_documents() -> None:
    names = {name_of_url(f"https://{host}.example/" + "../a/" * 200 + "b" * MAX_NAME) for host in ("one", "two")}
    assert len(names) == 2
    assert {len(checked_name(name)) for name in names} == {MAX_NAME}
