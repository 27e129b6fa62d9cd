"""Ingest the example handbook into a running ragstore and query it.

Run ``make run`` in one terminal and ``make demo`` in another, or::

    python examples/demo.py --url http://127.0.0.1:8080

Passages and questions include their embeddings, so no embedding model is needed. A second run changes
nothing: the passages are upserted under the same ids.
"""

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

import httpx

HANDBOOK = Path(__file__).parent / "handbook"
COLLECTION = "handbook"
LAYERS = ("document", "page", "section", "chunk")
BATCH_SIZE = 50
TOP_K = 3
# The question whose whole section is printed: the section starts a page before the nearest chunk.
EXPANDED = "question-8"
WIDTH = 88

Where = dict[str, str | int | dict[str, int]]


class Metadata(TypedDict, total=False):
    """The metadata keys that the demo reads. The passages have more, see ``README.md``."""

    layer: str
    page_number: int
    section_heading: str
    section_id: str
    chunk_index: int


class Document(TypedDict):
    """A document as the service returns it."""

    id: str
    text: str
    metadata: Metadata


class EmbeddedDocument(Document):
    """A document as it is upserted; ``embedding`` is base64 of 384 little-endian float32."""

    embedding: str


class Result(Document):
    """One result of a query; ``score`` is the cosine similarity, whose maximum is 1."""

    distance: float
    score: float


class Page(TypedDict):
    """One page of a listing; ``total`` counts all documents that match, on all pages."""

    documents: list[Document]
    count: int
    total: int


class Question(TypedDict):
    """A question with its embedding and the heading of the section with the information."""

    id: str
    text: str
    embedding: str
    answer_in: str


def read_passages() -> list[EmbeddedDocument]:
    """Read the passages of all four layers, in reading order."""
    return [json.loads(line) for line in _lines("passages.jsonl")]


def read_questions() -> list[Question]:
    """Read the questions."""
    return [json.loads(line) for line in _lines("questions.jsonl")]


def connect(url: str, api_key: str | None) -> httpx.Client:
    """Open a client whose every error status raises ``httpx.HTTPStatusError``.

    Args:
        url: Address of the service.
        api_key: Sent as a bearer token; ``None`` for a service without keys.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return httpx.Client(
        base_url=url,
        headers=headers,
        timeout=30,
        event_hooks={"response": [_raise_for_status]},
    )


def create_collection(client: httpx.Client, collection: str) -> None:
    """Create the collection, or keep the existing one."""
    client.post(
        "/collections",
        json={
            "name": collection,
            "metadata": {"title": "Property management handbook"},
            "embedding_model": "all-MiniLM-L6-v2",
            "distance": "cosine",
            "get_or_create": True,
        },
    )


def ingest(client: httpx.Client, collection: str, passages: Sequence[EmbeddedDocument]) -> int:
    """Upsert the passages batch by batch.

    Returns:
        The number of requests.
    """
    batches = [passages[i : i + BATCH_SIZE] for i in range(0, len(passages), BATCH_SIZE)]
    for batch in batches:
        client.put(f"/collections/{collection}/documents", json={"documents": batch})
    return len(batches)


def list_documents(client: httpx.Client, collection: str, where: Where, limit: int = 100) -> Page:
    """List the documents that match a filter, in insertion order.

    Args:
        client: A client of the service.
        collection: Name of the collection.
        where: Metadata fields and their required values; several fields mean AND.
        limit: Maximum number of documents to return; ``total`` counts the others, too.
    """
    response = client.get(
        f"/collections/{collection}/documents",
        params={"where": json.dumps(where), "limit": limit},
    )
    page: Page = response.json()
    return page


def find_nearest(client: httpx.Client, collection: str, question: Question) -> list[Result]:
    """Find the chunks nearest to a question.

    Returns:
        Up to ``TOP_K`` results, nearest first.
    """
    response = client.post(
        f"/collections/{collection}/query",
        json={
            "query_embedding": question["embedding"],
            "top_k": TOP_K,
            "where": {"layer": "chunk"},
        },
    )
    results: list[Result] = response.json()["results"]
    return results


def expand_to_section(client: httpx.Client, collection: str, chunk: Document) -> list[Document]:
    """Read the whole section of a chunk.

    Returns:
        All chunks with the same ``section_id``, in reading order.
    """
    siblings = list_documents(client, collection, {"section_id": chunk["metadata"]["section_id"], "layer": "chunk"})
    return sorted(siblings["documents"], key=lambda sibling: sibling["metadata"]["chunk_index"])


def rank(question: Question, results: Sequence[Result]) -> int | None:
    """Find the rank of the first result from the section that the question names.

    Returns:
        1 for the nearest result, ``None`` when no result is from that section.
    """
    for position, result in enumerate(results, start=1):
        if result["metadata"].get("section_heading") == question["answer_in"]:
            return position
    return None


def print_layers(client: httpx.Client, collection: str) -> None:
    """Print the number of passages in each layer."""
    for layer in LAYERS:
        total = list_documents(client, collection, {"layer": layer}, limit=1)["total"]
        print(f"  layer = {layer:<9} {total:>4}")


def print_contents(client: httpx.Client, collection: str, first_page: int, last_page: int) -> None:
    """Print the headings of the sections that start on some pages."""
    pages = {"$gte": first_page, "$lte": last_page}
    sections = list_documents(client, collection, {"layer": "section", "page_number": pages})
    print(f"\n  layer = section and {first_page} <= page_number <= {last_page}")
    for section in sections["documents"]:
        metadata = section["metadata"]
        print(f"    {metadata['section_heading']:.<48} page {metadata['page_number']}")


def print_result(question: Question, results: Sequence[Result], position: int | None) -> None:
    """Print a question, its nearest chunk, and the rank of the right section if that is not 1."""
    print()
    print_wrapped(f"Q: {question['text']}", indent=0)
    if not results:
        print("  no result")
        return
    best = results[0]
    print(f"  {location(best)}   score {best['score']:.2f}")
    print_wrapped(best["text"])
    if position != 1:
        where = f"result {position} of {len(results)}" if position else f"not in the top {TOP_K}"
        print_wrapped(f'(missed: the right section is "{question["answer_in"]}", {where})')


def print_section(chunks: Sequence[Document]) -> None:
    """Print the chunks of a section."""
    for chunk in chunks:
        print(f"\n  {location(chunk)}, chunk {chunk['metadata']['chunk_index']}")
        print_wrapped(chunk["text"])


def print_heading(text: str) -> None:
    """Print an underlined heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def print_wrapped(text: str, indent: int = 4) -> None:
    """Print text, each of its paragraphs wrapped at ``WIDTH`` columns."""
    margin = " " * indent
    for paragraph in text.split("\n\n"):
        print(textwrap.fill(paragraph, WIDTH, initial_indent=margin, subsequent_indent=margin))


def location(document: Document) -> str:
    """The heading and page of a passage, for example ``Deposits, page 6``."""
    metadata = document["metadata"]
    heading = metadata.get("section_heading", "(no section)")
    return f"{heading}, page {metadata['page_number']}"


def run(client: httpx.Client, collection: str) -> None:
    """Run the whole demo.

    Raises:
        httpx.HTTPError: The service cannot be reached or rejected a request.
    """
    passages, questions = read_passages(), read_questions()

    create_collection(client, collection)
    requests = ingest(client, collection, passages)
    print_heading(f'1. Ingest into the collection "{collection}"')
    print(f"  {len(passages)} passages upserted in {requests} requests")

    print_heading("2. List by filter")
    print_layers(client, collection)
    print_contents(client, collection, first_page=11, last_page=12)

    print_heading("3. Query")
    results = {question["id"]: find_nearest(client, collection, question) for question in questions}
    ranks = {question["id"]: rank(question, results[question["id"]]) for question in questions}
    for question in questions:
        print_result(question, results[question["id"]], ranks[question["id"]])

    print_heading("4. Expand a result to its section")
    question = next(question for question in questions if question["id"] == EXPANDED)
    nearest = results[EXPANDED][0]
    print_wrapped(f"Q: {question['text']}", indent=0)
    print(f"  section_id = {nearest['metadata']['section_id']}, found by {nearest['id']}")
    print_section(expand_to_section(client, collection, nearest))

    first = sum(position == 1 for position in ranks.values())
    print(f"\n{first} of {len(questions)} questions found their section first")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run the demo.

    Returns:
        The exit code: 0, or 1 when the service cannot be reached or rejected a request.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--url",
        default=os.environ.get("RAGSTORE_URL", "http://127.0.0.1:8080"),
        help="address of the service (default: RAGSTORE_URL, or %(default)s)",
    )
    parser.add_argument(
        "--api-key",
        default=os.environ.get("RAGSTORE_API_KEY"),
        help="sent as a bearer token (default: RAGSTORE_API_KEY, if set)",
    )
    parser.add_argument(
        "--collection", default=COLLECTION, metavar="NAME", help="collection to ingest into (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        with connect(options.url, options.api_key) as client:
            run(client, options.collection)
    except httpx.HTTPStatusError as error:
        print(f"error: {_reason(error.response)}", file=sys.stderr)
        if _code(error.response) == "dimension_mismatch":
            print(
                f"The collection '{options.collection}' has embeddings of another model. "
                "Another name keeps them apart: --collection handbook-demo",
                file=sys.stderr,
            )
        return 1
    except (httpx.RequestError, httpx.InvalidURL) as error:
        print(f"error: no response from {options.url} ({error}); is it running?", file=sys.stderr)
        return 1
    return 0


def _lines(name: str) -> Iterator[str]:
    with (HANDBOOK / name).open(encoding="utf-8") as file:
        yield from file


def _raise_for_status(response: httpx.Response) -> None:
    if response.is_error:
        response.read()  # a hook receives the response before its body, which contains the reason
    response.raise_for_status()


def _code(response: httpx.Response) -> str:
    """The `code` of a problem document; empty when the response is none."""
    try:
        return str(response.json()["code"])
    except (ValueError, KeyError, TypeError):
        return ""


def _reason(response: httpx.Response) -> str:
    """The rejected request and the reason, from the ``detail`` of the problem document."""
    rejected = f"{response.request.method} {response.request.url.path}: {response.status_code}"
    try:
        return f"{rejected} {response.json()['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"{rejected} {response.reason_phrase}"


if __name__ == "__main__":
    sys.exit(main())
