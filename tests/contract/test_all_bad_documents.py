"""A request with bad documents names all of them, so that the others can be sent again."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from tests.support.documents import Document, add, count_of, document, documents_path, lines_of
from tests.support.problems import Problem, paths_of, problem_of
from tests.support.streams import stream

pytestmark = pytest.mark.process

MAX_ERRORS = 100


def send(http: httpx.Client, collection: str, documents: list[Document], method: str = "PUT") -> Problem:
    return problem_of(http.request(method, documents_path(collection), json={"documents": documents}), 400)


def numbered(count: int) -> list[Document]:
    return [document(f"doc-{number}", embedding=[1, number]) for number in range(count)]


def embedding_paths(*indexes: int) -> list[str]:
    return [f"$.documents[{index}].embedding" for index in indexes]


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_each_bad_document_is_named_with_its_own_fault(http: httpx.Client, collection: str, method: str) -> None:
    sent = numbered(8)
    sent[1]["embedding"] = [1, 2, 3]
    sent[2]["metadata"] = {"": 1}
    sent[4]["embedding"] = ["1", 2]
    sent[5]["text"] = None
    sent[7]["id"] = "doc-0"

    problem = send(http, collection, sent, method)

    assert [(error["path"], error["message"]) for error in problem["errors"]] == [
        ("$.documents[1].embedding", "Embedding dimension 3 does not match the dimension of the majority, 2"),
        ("$.documents[2].metadata", "A metadata key must not be empty"),
        ("$.documents[4].embedding[0]", "Embedding must be an array of numbers"),
        ("$.documents[5].text", "Expected `str`, got `null`"),
        ("$.documents[7].id", "Duplicate id 'doc-0' in the request"),
    ]
    assert "errors_omitted" not in problem
    assert problem["code"] == "invalid_documents"
    assert problem["detail"].endswith("$.documents[1].embedding; 4 more documents are invalid")
    assert count_of(http, collection) == 0


def test_documents_without_the_named_ones_are_stored(http: httpx.Client, collection: str) -> None:
    sent = numbered(60)
    for index in range(0, 60, 4):
        sent[index]["embedding"] = [1, 2, 3] if index % 8 else [1]
    bad = {int(path[len("$.documents[") :].partition("]")[0]) for path in paths_of(send(http, collection, sent))}

    good = [one for index, one in enumerate(sent) if index not in bad]
    http.put(documents_path(collection), json={"documents": good}).raise_for_status()

    assert bad == set(range(0, 60, 4))
    assert count_of(http, collection) == 45


def test_the_first_document_of_a_new_collection_does_not_decide_the_dimension(
    http: httpx.Client, collection: str
) -> None:
    sent = numbered(5)
    sent[0]["embedding"] = [1, 2, 3]

    problem = send(http, collection, sent)

    assert paths_of(problem) == embedding_paths(0)
    assert problem["code"] == "dimension_mismatch"


def test_the_dimension_of_the_collection_decides_against_a_majority(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("kept", embedding=[1, 2, 3]))
    sent = numbered(5)
    sent[3]["embedding"] = [1, 2, 3]

    problem = send(http, collection, sent)

    assert paths_of(problem) == embedding_paths(0, 1, 2, 4)
    assert problem["errors"][0]["message"] == "Embedding dimension 2 does not match the collection's dimension 3"


def test_documents_that_all_have_another_dimension_than_the_collection_are_all_named(
    http: httpx.Client, collection: str
) -> None:
    add(http, collection, document("kept", embedding=[1, 2, 3]))

    assert paths_of(send(http, collection, numbered(3))) == embedding_paths(0, 1, 2)


def test_dimensions_without_a_majority_are_all_named(http: httpx.Client, collection: str) -> None:
    sent = [document("a", embedding=[1]), document("b", embedding=[1, 2]), document("c", embedding=[2, 1])]
    sent.append(document("d", embedding=[2]))

    assert paths_of(send(http, collection, sent)) == embedding_paths(0, 1, 2, 3)


def test_embeddings_that_a_cosine_collection_would_lose_are_all_named(http: httpx.Client, collection: str) -> None:
    sent = numbered(6)
    sent[1]["embedding"] = [1e-30, 0]
    sent[4]["embedding"] = [1e30, 0]

    assert paths_of(send(http, collection, sent)) == embedding_paths(1, 4)


def test_an_id_counts_as_repeated_only_after_a_good_document(http: httpx.Client, collection: str) -> None:
    sent = [document("a", embedding=[1, 2, 3]), *numbered(3), document("a"), document("a")]

    assert paths_of(send(http, collection, sent)) == ["$.documents[0].embedding", "$.documents[5].id"]


@pytest.mark.parametrize("count", [MAX_ERRORS, MAX_ERRORS + 1, 5000])
def test_a_hundred_bad_documents_are_listed_and_the_others_counted(
    http: httpx.Client, collection: str, count: int
) -> None:
    sent = [document(f"doc-{number}", embedding=["no"]) for number in range(count)]  # type: ignore[list-item]

    problem = send(http, collection, [*sent, document("good")])

    assert len(problem["errors"]) == MAX_ERRORS
    assert problem.get("errors_omitted", 0) == count - MAX_ERRORS


def test_existing_ids_are_listed_up_to_a_hundred_too(http: httpx.Client, collection: str) -> None:
    add(http, collection, *numbered(150))

    response = http.post(documents_path(collection), json={"documents": numbered(150)})

    problem = problem_of(response, 409)
    assert (len(problem["errors"]), problem["errors_omitted"]) == (MAX_ERRORS, 50)


@pytest.mark.parametrize(
    "long", ["k" * 20_000, "\x01" * 20_000, "\U0001f600" * 20_000], ids=["ascii", "control", "emoji"]
)
def test_the_response_to_bad_documents_is_short_whatever_their_keys_and_ids_are(
    http: httpx.Client, collection: str, long: str
) -> None:
    by_key = [{**document(f"doc-{number}"), "metadata": {f"#{long}": 1}} for number in range(120)]
    by_id = [document(long) for _ in range(120)]

    for sent in (by_key, by_id):
        response = http.put(documents_path(collection), json={"documents": sent})

        problem = problem_of(response, 400)
        assert len(response.content) < 64 * 1024
        assert len(problem["errors"]) + problem["errors_omitted"] == len(sent) - (sent is by_id)


def test_messagepack_is_judged_alike(http: httpx.Client, collection: str) -> None:
    sent = numbered(4)
    sent[0]["embedding"] = [1, 2, 3]
    sent[2]["metadata"] = {"$a": 1}

    response = http.put(
        documents_path(collection),
        content=msgspec.msgpack.encode({"documents": sent}),
        headers={"Content-Type": "application/msgpack"},
    )

    assert paths_of(problem_of(response, 400)) == ["$.documents[0].embedding", "$.documents[2].metadata.$a"]


def test_a_stream_names_all_bad_lines_of_a_batch(http: httpx.Client, collection: str) -> None:
    sent = numbered(6)
    sent[0]["embedding"] = [1, 2, 3]
    sent[4]["metadata"] = {"$a": 1}

    problem = problem_of(stream(http, collection, lines_of(*sent)), 400)

    assert [(error["line"], error["path"]) for error in problem["errors"]] == [(1, "$.embedding"), (5, "$.metadata.$a")]
    assert count_of(http, collection) == 0
