"""Reading a collection while others write to it."""

from __future__ import annotations

import pytest

from ragstore.transfer.failures import CollectionChanged
from ragstore.transfer.reading import pages
from ragstore.transfer.remote import connected
from tests.support.transfers import Store, document


async def test_documents_that_are_added_meanwhile_are_left_out(embedded: Store, filled: str) -> None:
    before = [each["id"] for each in embedded.listed(filled)]
    read = []
    async with connected(embedded.url, "", 120) as service:
        async for page in pages(service, await service.collection(filled), 20):
            read += [each.id for each in page]
            embedded.put(filled, {"id": f"later-{len(read)}", "text": "", "embedding": [1, 2, 3, 4]})
    assert read == before


async def test_documents_that_are_replaced_meanwhile_stay_where_they_are(embedded: Store, filled: str) -> None:
    before = [each["id"] for each in embedded.listed(filled)]
    read = []
    async with connected(embedded.url, "", 120) as service:
        async for page in pages(service, await service.collection(filled), 20):
            read += [each.id for each in page]
            embedded.put(filled, document(3, [9, 9, 9, 9]), document(45, [9, 9, 9, 9]))
    assert read == before


@pytest.mark.parametrize("place", [0, 19, 49])
@pytest.mark.parametrize("added", [0, 5])
async def test_no_document_is_missed_unseen_when_others_are_deleted_meanwhile(
    embedded: Store, filled: str, place: int, added: int
) -> None:
    before = [each["id"] for each in embedded.listed(filled)]
    read: list[str] = []

    async def read_all() -> None:
        async with connected(embedded.url, "", 120) as service:
            async for page in pages(service, await service.collection(filled), 20):
                if not read:
                    embedded.http.delete(f"/collections/{filled}/documents", params={"ids": before[place]})
                    if added:
                        new = ({"id": f"new-{each}", "text": "", "embedding": [1, 2, 3, 4]} for each in range(added))
                        embedded.put(filled, *new)
                read.extend(each.id for each in page)

    if place == 49 and added:
        # It was behind what had been read, and a new one took its place: all that was there throughout is read.
        await read_all()
        assert set(before) - set(read) == {before[49]}
    else:
        with pytest.raises(CollectionChanged):
            await read_all()
