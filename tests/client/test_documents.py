"""Documents through both clients, against the real service."""

from __future__ import annotations

import struct

import msgspec
import numpy as np
import pytest

from ragstore_client import BadRequest, Client, Conflict, InvalidInput, NewDocument, NotFound
from tests.client.clients import ClientFactory
from tests.client.corpus import CANARY_NUMBER, CANARY_TEXT, CANARY_VALUE
from tests.client.fake_servers import Response, scripted_server


def documents(count: int, **metadata: str | int) -> list[NewDocument]:
    return [
        NewDocument(id=f"d{number}", text=f"text {number}", embedding=[1.0, float(number)], metadata=metadata or None)
        for number in range(count)
    ]


def test_added_documents_read_back_as_they_were(client: Client, client_collection: str) -> None:
    metadata: dict[str, str | int | float | bool | list[str] | None]
    metadata = {"layer": CANARY_VALUE, "page": 3, "ratio": 0.5, "live": True, "tags": ["a", "b"], "none": None}
    sent = NewDocument(id="a", text=CANARY_TEXT, embedding=[CANARY_NUMBER, 1.0], metadata=metadata)
    written = client.add_documents(client_collection, [sent])
    assert (written.status, written.count, written.ids) == ("added", 1, ["a"])
    read = client.get_document(client_collection, "a")
    assert read.text == CANARY_TEXT
    assert read.metadata == {key: value for key, value in metadata.items() if value is not None}


def test_the_service_generates_a_missing_id(client: Client, client_collection: str) -> None:
    (made,) = client.add_documents(client_collection, [NewDocument(text="x", embedding=[1.0])]).ids
    assert client.get_document(client_collection, made).text == "x"


def test_numpy_vectors_and_numpy_metadata_are_accepted(client: Client, client_collection: str) -> None:
    sent = NewDocument(
        id="a",
        text="x",
        embedding=np.array([0.1, 0.2], dtype="float32"),
        metadata={"page": np.int64(7), "ratio": np.float32(0.5), "live": np.bool_(True)},  # type: ignore[dict-item]
    )
    client.upsert_documents(client_collection, [sent])
    page = client.list_documents(client_collection, ids=["a"], include_embeddings=True)
    assert page.documents[0].metadata.items() >= {"page": 7, "ratio": 0.5, "live": True}.items()
    assert page.documents[0].embedding == pytest.approx([0.1, 0.2])


def test_an_existing_id_is_a_conflict_for_add_and_replaced_by_upsert(client: Client, client_collection: str) -> None:
    client.add_documents(client_collection, documents(2))
    with pytest.raises(Conflict, match="d1"):
        client.add_documents(client_collection, documents(3)[1:])
    assert client.get_collection(client_collection).count == 2
    client.upsert_documents(client_collection, [NewDocument(id="d1", text="new", embedding=[0.0, 1.0])])
    assert client.get_document(client_collection, "d1").text == "new"


def test_a_rejection_names_the_invalid_document(client: Client, client_collection: str) -> None:
    client.add_documents(client_collection, documents(1))
    wrong = [*documents(2), NewDocument(id="x", text="x", embedding=[1.0, 2.0, 3.0])]
    with pytest.raises(BadRequest) as caught:
        client.upsert_documents(client_collection, wrong)
    assert "[2]" in caught.value.errors[0].path
    assert "2" in caught.value.detail
    assert "3" in caught.value.detail


@pytest.mark.parametrize(
    "metadata",
    [{"x": float("nan")}, {"x": float("inf")}, {"x": object()}, {"x": "\ud800"}],
    ids=["NaN", "infinity", "object", "surrogate"],
)
def test_metadata_that_json_cannot_represent_is_rejected_before_it_is_sent(
    client: Client, client_collection: str, metadata: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput):
        client.upsert_documents(client_collection, [NewDocument(id="a", text="x", embedding=[1.0], metadata=metadata)])


@pytest.mark.parametrize("document_id", ["a/b", "a:b", "ä ö?#%", "..", ".", "filter", "all", "日本", "a\nb"])
def test_any_text_is_an_id(client: Client, client_collection: str, document_id: str) -> None:
    client.upsert_documents(client_collection, [NewDocument(id=document_id, text="x", embedding=[1.0])])
    assert client.get_document(client_collection, document_id).id == document_id
    assert client.delete_documents(client_collection, ids=[document_id]).count == 1
    with pytest.raises(NotFound):
        client.get_document(client_collection, document_id)


def test_documents_are_listed_in_insertion_order_with_their_total(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, documents(7))
    page = client.list_documents(client_collection, limit=3, offset=2)
    assert [document.id for document in page.documents] == ["d2", "d3", "d4"]
    assert (page.count, page.total) == (3, 7)
    assert client.list_documents(client_collection, total=False).total is None
    assert client.list_documents(client_collection).documents[0].embedding is None


def test_a_page_after_a_cursor_follows_the_previous_page_and_has_its_total(
    client: Client, client_collection: str
) -> None:
    client.add_documents(client_collection, documents(7))
    first = client.list_documents(client_collection, limit=3)
    second = client.list_documents(client_collection, limit=3, after=first.next)
    last = client.list_documents(client_collection, limit=3, after=second.next)
    assert [document.id for document in second.documents] == ["d3", "d4", "d5"]
    assert (second.total, [document.id for document in last.documents], last.next) == (7, ["d6"], None)


def test_a_list_of_several_requests_has_the_cursor_of_its_end(client: Client, client_collection: str) -> None:
    client.add_documents(client_collection, documents(2500))
    first = client.list_documents(client_collection, limit=1500, include_texts=False)
    assert (first.count, first.total, first.documents[-1].id) == (1500, 2500, "d1499")
    following = client.list_documents(client_collection, limit=1, after=first.next)
    assert ([document.id for document in following.documents], following.total) == (["d1500"], 2500)
    rest = client.list_documents(client_collection, limit=2000, include_texts=False, after=first.next)
    assert [document.id for document in rest.documents] == [f"d{number}" for number in range(1500, 2500)]
    assert (rest.total, rest.next) == (2500, None)


def test_filters_select_by_metadata_text_and_id(client: Client, client_collection: str) -> None:
    client.upsert_documents(
        client_collection,
        [
            NewDocument(id=f"d{n}", text=f"text {n % 2}", embedding=[1.0], metadata={"n": n, "value": CANARY_VALUE})
            for n in range(6)
        ],
    )
    page = client.list_documents(
        client_collection,
        where={"n": {"$gte": 1, "$lt": 5}, "value": CANARY_VALUE},
        where_document={"$contains": "text 1"},
        ids=["d1", "d2", "d5"],
    )
    assert [document.id for document in page.documents] == ["d1"]
    assert page.total == 1


def test_an_invalid_filter_is_a_bad_request_that_names_the_error(client: Client, client_collection: str) -> None:
    with pytest.raises(BadRequest, match="Invalid 'where' filter: "):
        client.list_documents(client_collection, where={"n": {"$near": 1}})


def test_a_filter_is_never_part_of_a_url(
    client: Client, client_collection: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        client.list_documents(client_collection, where={"value": CANARY_VALUE})
        client.delete_documents(client_collection, where={"value": CANARY_VALUE})
    assert client_collection in caplog.text
    assert CANARY_VALUE not in caplog.text


@pytest.mark.parametrize("page_size", [2, 3, 7, 1000, 5000])
def test_iteration_goes_over_all_pages(client: Client, client_collection: str, page_size: int) -> None:
    client.upsert_documents(client_collection, documents(7))
    found = list(client.iter_documents(client_collection, page_size=page_size, include_embeddings=True))
    assert [document.id for document in found] == [f"d{number}" for number in range(7)]
    assert found[6].embedding == pytest.approx([1.0, 6.0])


@pytest.mark.parametrize("where", [None, {"part": "a"}])
def test_documents_that_are_deleted_during_an_iteration_hide_no_other(
    client: Client, client_collection: str, where: dict[str, str] | None
) -> None:
    client.upsert_documents(client_collection, documents(9, part="a"))
    iterator = client.iter_documents(client_collection, where=where, page_size=3)
    found = [next(iterator).id]
    client.delete_documents(client_collection, ids=["d0", "d1"])
    assert [*found, *(document.id for document in iterator)] == [f"d{number}" for number in range(9)]


def test_an_iteration_continues_by_offset_when_the_last_document_of_a_page_is_deleted(
    client: Client, client_collection: str
) -> None:
    client.upsert_documents(client_collection, documents(9))
    iterator = client.iter_documents(client_collection, page_size=3)
    found = [next(iterator).id]
    client.delete_documents(client_collection, ids=["d2"])
    client.upsert_documents(client_collection, [NewDocument(id="d9", text="x", embedding=[1.0, 9.0])])
    assert [*found, *(document.id for document in iterator)] == ["d0", "d1", "d2", "d4", "d5", "d6", "d7", "d8", "d9"]


def test_delete_counts_what_was_there(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, documents(5, part="a"))
    assert client.delete_documents(client_collection, ids=["d0", "nowhere"]).count == 1
    assert client.delete_documents(client_collection, where={"part": "a"}).count == 4
    with pytest.raises(BadRequest):
        client.delete_documents(client_collection)


def test_an_emptied_collection_stays(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, documents(3))
    assert client.empty_collection(client_collection).count_deleted == 3
    assert client.get_collection(client_collection).count == 0


def test_the_nearest_come_first(client: Client, client_collection: str) -> None:
    client.upsert_documents(
        client_collection,
        [
            NewDocument(id="east", text="e", embedding=[1.0, 0.0], metadata={"side": "e"}),
            NewDocument(id="north", text="n", embedding=[0.0, 1.0], metadata={"side": "n"}),
        ],
    )
    found = client.query(client_collection, [0.9, 0.1], top_k=2)
    assert [match.id for match in found.results] == ["east", "north"]
    near, far = found.results
    assert near.distance is not None
    assert far.distance is not None
    assert near.distance < far.distance
    assert near.score == pytest.approx(1 - near.distance)
    only = client.query(client_collection, [0.9, 0.1], where={"side": "n"}, include_embeddings=True)
    assert [(match.id, match.embedding) for match in only.results] == [("north", [0.0, 1.0])]
    assert client.query(client_collection, [CANARY_NUMBER, 0.1], min_score=0.5).count == 1
    assert client.query(client_collection, [0.9, 0.1], max_distance=0.5).count == 1


def test_a_query_of_another_dimension_is_rejected(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, documents(1))
    with pytest.raises(BadRequest, match="dimension"):
        client.query(client_collection, [1.0, 2.0, 3.0])


def test_a_failed_collection_does_not_fail_a_query_of_several(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, documents(2))
    found = client.query_collections([client_collection, "nowhere"], [1.0, 0.0])
    assert {match.collection for match in found.results} == {client_collection}
    assert [(error.collection, error.status) for error in found.errors] == [("nowhere", 404)]
    assert client.query_collections(client_collection, [1.0, 0.0], top_k=1).count == 1
    with pytest.raises(NotFound):
        client.query_collections("nowhere", [1.0, 0.0])


def test_the_code_of_a_collection_that_failed_is_exposed(make_client: ClientFactory) -> None:
    failed = [
        {"collection": "a", "status": 400, "detail": "x", "code": "dimension_mismatch"},
        {"collection": "b", "status": 404, "detail": "x"},
    ]
    with scripted_server(Response(200, {"results": [], "count": 0, "errors": failed})) as server:
        found = make_client(server.url).query_collections(["a", "b"], [1.0])
    assert [(error.collection, error.code) for error in found.errors] == [("a", "dimension_mismatch"), ("b", None)]


def test_vectors_are_read_as_bytes_where_the_service_can_send_them(make_client: ClientFactory) -> None:
    document = {"id": "a", "text": "x", "metadata": {"n": 1}, "embedding": struct.pack("<2f", 0.5, 1.0)}
    page = msgspec.msgpack.encode({"documents": [document], "count": 1, "total": None})
    found = msgspec.msgpack.encode({"results": [document | {"distance": 0.5, "score": None}], "count": 1})
    with scripted_server(Response(200, page), Response(200, found)) as server:
        client = make_client(server.url)
        assert client.list_documents("abc", include_embeddings=True).documents[0].embedding == [0.5, 1.0]
        (match,) = client.query("abc", [1.0], include_embeddings=True).results
    assert (match.distance, match.embedding) == (0.5, [0.5, 1.0])
    assert not match.score > 0
    assert "application/msgpack" in server.requests[0].headers["accept"]


def test_a_page_with_vectors_has_the_cursor_of_the_next_one(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, [NewDocument(id=id_, text="", embedding=[1.0, 0.0]) for id_ in "abc"])
    first = client.list_documents(client_collection, include_embeddings=True, limit=2)
    assert first.next is not None
    rest = client.list_documents(client_collection, include_embeddings=True, after=first.next)
    assert [found.id for found in rest.documents] == ["c"]
