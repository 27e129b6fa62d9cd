"""`Comparison`: what searches and lists of a gateway return, compared with the model of its bases."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx

from tests.oracle.bases.gateway_process import Gateway
from tests.oracle.bases.model import Allowed, Base, Content, Document, Found, differences
from tests.oracle.bases.plan import KEYS

NEAR: Final = 3
"""Maximum number of results of a search by the own text of a chunk."""

ALL: Final = 1000
"""Maximum number of results of a search for all chunks. No base has more."""


class Difference(Exception):
    """The gateway and the model differ."""


@dataclass(frozen=True, slots=True)
class Known:
    """The state of a document at a moment.

    Attributes:
        changes: number of its changes.
        is_visible: whether searches find one of its contents. An ingestion that ends is no change, so this differs at
            another moment.
    """

    changes: int
    is_visible: bool


def known_of(base: Base) -> dict[str, Known]:
    """The state of the documents of a base now."""
    return {name: Known(each.changes, None not in each.visible) for name, each in base.documents.items()}


class Comparison:
    """Searches and lists bases, and compares the responses with their model.

    Args:
        done: number of operations by kind, to which comparisons are added.
        is_changing: whether a change of a document of a base is in flight.
    """

    def __init__(self, gateway: Gateway, done: Counter[str], is_changing: Callable[[Base, str], bool]) -> None:
        self._gateway = gateway
        self._done = done
        self._is_changing = is_changing

    async def search_text(self, base: Base, key: str, name: str, content: Content, choices: random.Random) -> None:
        """Search by the own text of a chunk, which is found unless its document or the configuration changed."""
        with base.searching() as allowed:
            configuration = choices.choice(sorted(allowed.configurations, key=str))
            chunk = choices.choice(content.chunks(configuration))
            found = await self.query(base, key, chunk, NEAR)
        self.check(base, allowed, found, is_complete=False)
        is_certain = allowed.contents.get(name) == {content} and len(allowed.configurations) == 1
        if is_certain and not any(each.name == name and each.text.strip() == chunk for each in found):
            raise Difference(f"{name} was not found by its own text{history(base.document(name))}")

    def check(self, base: Base, allowed: Allowed, found: Sequence[Found], *, is_complete: bool) -> None:
        """Compare the chunks that a search has found with the results that are right for it."""
        wrong = differences(allowed, found, is_complete=is_complete)
        if wrong:
            name = wrong[0].partition(":")[0]
            known = history(base.documents[name]) if name in base.documents else ""
            raise Difference(f"base {base.index}: {'; '.join(wrong)}{known}")

    async def query(self, base: Base, key: str, question: str, limit: int, *, repeats: bool = False) -> list[Found]:
        """Search a base.

        Args:
            key: name of the key.
            limit: maximum number of results.
            repeats: whether the search is sent again after a kill or a 503.
        """
        body = {"query": question, "minScore": 0.0, "maxResults": limit}
        send = self._gateway.repeat if repeats else self._gateway.call
        response = await send(key, "POST", f"{path_of(base)}/query", json=body)
        expect(response, 200)
        return [
            Found(
                str(each["metadata"].get("document_name")),
                str(each["metadata"].get("revision")),
                int(each["metadata"].get("chunk_index", -1)),
                each["text"],
            )
            for each in response.json()["results"]
        ]

    def compare_list(self, base: Base, listed: dict[str, Any], before: dict[str, Known]) -> None:
        """Compare a list with the documents that did not change meanwhile.

        Args:
            before: the state of the documents before the list was requested.
        """
        for name in listed.keys() - base.documents.keys():
            raise Difference(f"{name} is listed, and was never sent to this base")
        for name, known in before.items():
            document = base.documents[name]
            if document.changes != known.changes or self._is_changing(base, name):
                continue
            if (name in listed) != bool(document.ingestions):
                raise Difference(f"{name}: listed {name in listed}{history(document)}")
            if name in listed and not listed[name]["searchable"] and known.is_visible:
                raise Difference(f"{name} is not searchable{history(document)}")
            if name in listed and listed[name]["ingestionId"] != document.ingestions[-1].id:
                raise Difference(f"{name}: last ingestion {listed[name]['ingestionId']}{history(document)}")

    async def compare(self, base: Base) -> None:
        """Compare everything with the model, in which nothing changes any more."""
        base.configurations = {base.configuration}
        for key in KEYS:
            with base.searching() as allowed:
                found = await self.query(base, key, "document", ALL, repeats=True)
            self.check(base, allowed, found, is_complete=True)
        response = await self._gateway.read("reader", f"{path_of(base)}/documents?limit=1000")
        listed = {each["name"]: each for each in response.json()["documents"]}
        self.compare_list(base, listed, known_of(base))
        await asyncio.to_thread(self._compare_keywords, base)
        for name, document in base.documents.items():
            for content in document.visible - {None}:
                assert content is not None
                await self._search_chunks(base, name, content)
                self._done["document compared at the end"] += 1

    def _compare_keywords(self, base: Base) -> None:
        """Compare the keyword index with the chunks of the visible revisions."""
        indexed = [id for ids in self._gateway.state.indexed(base.id).values() for id in ids]
        visible = self._gateway.state.visible(base.id)
        if set(indexed) != visible or len(indexed) != len(visible):
            raise Difference(f"{len(indexed)} chunks are in the keyword index, and {len(visible)} are visible")

    async def _search_chunks(self, base: Base, name: str, content: Content) -> None:
        """Search for the chunks of a document by their own texts: all of a small one, some of a large one."""
        chunks = content.chunks(base.configuration)
        for chunk in chunks[:6]:
            found = await self.query(base, base.owner, chunk, NEAR, repeats=True)
            if not any(each.name == name and each.text.strip() == chunk for each in found):
                rank = await self._rank(base, name, chunk)
                raise Difference(f"{name} is not found by its own text, {rank}{history(base.document(name))}")
            self._done["chunk searched at the end"] += 1

    async def _rank(self, base: Base, name: str, chunk: str) -> str:
        """Where a search for all chunks finds a chunk."""
        found = await self.query(base, base.owner, chunk, ALL, repeats=True)
        ranks = [rank for rank, each in enumerate(found) if each.name == name and each.text.strip() == chunk]
        first = [f"{each.name} {each.text[:40]!r}" for each in found[:NEAR]]
        return f"rank {ranks} of {len(found)} in a search for all, behind {first}"


def path_of(base: Base, document: str = "") -> str:
    """The path of a base, or of one of its documents."""
    own = f"/ragstore/rags/{base.id}"
    return f"{own}/documents/{quote(document, safe='')}" if document else own


def expect(response: httpx.Response, *statuses: int) -> None:
    """Check the status of a response."""
    if response.status_code not in statuses:
        called = f"{response.request.method} {response.request.url}"
        raise Difference(f"{called}: {response.status_code} instead of {statuses}: {response.text[:300]}")


def history(document: Document) -> str:
    """The latest changes of a document, for a report."""
    states = [f"{each.id} {each.state}" for each in document.ingestions]
    return "\n    ".join(["", *document.history[-12:], f"in the model: {states}"])
