"""The client's calls of knowledge bases."""

from __future__ import annotations

import pytest

from ragstore_client import BadRequest, Conflict, NotFound
from ragstore_client.gateway import GatewayClient, KnowledgeBase, Source, Stored, WebSource

pytestmark = pytest.mark.process


def test_a_created_base_is_found_by_name_and_by_id_with_all_fields(
    client: GatewayClient, base: Stored[KnowledgeBase]
) -> None:
    name = str(base.configuration.name)
    assert client.bases.find(name) == client.bases.find(base.id) == client.bases.get(base) == base
    assert base.version == 1
    assert (base.configuration.chunk_strategy, base.configuration.chunk_size) == ("markdown", 512)
    assert base.fields["chunkStrategy"] == "markdown"


def test_bases_are_listed_by_pages_and_by_a_part_of_their_name(client: GatewayClient) -> None:
    made = [client.bases.create(KnowledgeBase(name=f"listed-{number}")) for number in range(3)]
    try:
        newest_first = [base.id for base in reversed(made)]
        assert [found.id for found in client.bases.iter("listed-", page_size=2)] == newest_first
        assert [found.id for found in client.bases.page("listed-", index=1, limit=2)] == newest_first[2:]
        assert next(client.bases.iter("listed-1")).name == "listed-1"
    finally:
        for each in made:
            client.bases.delete(each, permanent=True)


def test_an_update_changes_the_given_fields_and_leaves_the_others(
    client: GatewayClient, base: Stored[KnowledgeBase]
) -> None:
    changed = client.bases.update(base, KnowledgeBase(max_results=7))
    assert (changed.version, changed.configuration.max_results) == (2, 7)
    assert changed.configuration.chunk_strategy == "markdown"
    again = client.bases.update(base.id, {"description": "lifts"})
    assert (again.version, again.configuration.max_results, again.configuration.description) == (3, 7, "lifts")
    assert client.bases.get(base, version=1) == base
    assert [each.version for each in client.bases.versions(base).versions] == [3, 2, 1]


def test_an_update_of_an_old_version_is_a_version_conflict(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    client.bases.update(base, KnowledgeBase(max_results=7))
    with pytest.raises(Conflict) as raised:
        client.bases.update(base, KnowledgeBase(max_results=8))
    assert raised.value.code == "version_conflict"


def test_sources_are_written_and_read_as_structs(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    source = Source(name="site", web=WebSource(start_url="https://example.com/", max_pages=3))
    changed = client.bases.update(base, KnowledgeBase(sources=[source]))
    assert isinstance(changed.configuration.sources, list)
    (stored,) = changed.configuration.sources
    assert isinstance(stored.web, WebSource)
    assert (stored.name, stored.type, stored.web.start_url, stored.web.max_pages, stored.web.max_depth) == (
        "site",
        "web",
        "https://example.com/",
        3,
        3,
    )


def test_a_taken_name_and_an_invalid_field_have_codes_and_paths(
    client: GatewayClient, base: Stored[KnowledgeBase]
) -> None:
    with pytest.raises(Conflict) as taken:
        client.bases.create(KnowledgeBase(name=base.configuration.name))
    assert taken.value.code == "name_taken"
    with pytest.raises(BadRequest) as invalid:
        client.bases.create({"name": "invalid", "chunkSize": 0})
    assert [error.path for error in invalid.value.errors] == ["$.chunkSize"]


def test_a_deleted_base_does_not_exist(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    assert client.bases.exists(base.id)
    client.bases.delete(base)
    assert not client.bases.exists(base.id)
    with pytest.raises(NotFound) as raised:
        client.bases.find(str(base.configuration.name))
    assert raised.value.code == "configuration_not_found"


def test_a_copy_has_the_fields_and_the_documents(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    client.ingest_text(base, "lift.txt", "The lift is tested every year.")
    copy = client.bases.duplicate(base, documents=True)
    try:
        assert copy.id != base.id
        assert copy.configuration.chunk_strategy == "markdown"
        assert [each.name for each in client.iter_documents(copy)] == ["lift.txt"]
    finally:
        client.bases.delete(copy, permanent=True)
