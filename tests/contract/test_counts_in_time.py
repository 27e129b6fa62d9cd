"""A list of collections counts for two seconds at most, over a Chroma server that does not respond to some counts."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import add, documents
from tests.support.fake_servers import between, listening
from tests.support.servers import Served, running, start_service

pytestmark = pytest.mark.process


def _listed(client: httpx.Client, query: str = "") -> dict[str, object]:
    found: dict[str, object] = client.get(f"/collections{query}").raise_for_status().json()
    return found


async def test_a_collection_that_is_not_counted_in_time_has_no_count_and_the_list_says_how_many(
    chroma: Served, tmp_path: Path
) -> None:
    held: list[str] = []
    environ = {"RAGSTORE_CHROMA_DATABASE": f"counts-{uuid4().hex}"}
    proxy = between(chroma.url, [], is_held=lambda head: any(f"/{each}/count " in head for each in held))
    with ExitStack() as stack:
        async with listening(proxy) as url:
            service = await asyncio.to_thread(start_service, tmp_path, environ | {"RAGSTORE_CHROMA_URL": url})
            served = stack.enter_context(running(service))
            client = stack.enter_context(httpx.Client(base_url=served.url, timeout=60))
            for name in ("first", "second"):
                created = await asyncio.to_thread(client.post, "/collections", json={"name": name})
                created.raise_for_status()
            await asyncio.to_thread(add, client, "first", *documents(3))
            held.append(await asyncio.to_thread(_id_of, chroma, environ["RAGSTORE_CHROMA_DATABASE"], "second"))
            page = await asyncio.to_thread(_listed, client)
            spared = await asyncio.to_thread(_listed, client, "?counts=false")
            await asyncio.to_thread(stack.close)
    assert _counts(page) == {"first": 3, "second": None}
    assert (page["count"], page["total"], page["uncounted"]) == (2, 2, 1)
    assert _counts(spared) == {"first": None, "second": None}
    assert "uncounted" not in spared


def _counts(page: dict[str, object]) -> dict[str, object]:
    collections = page["collections"]
    assert isinstance(collections, list)
    return {each["name"]: each["count"] for each in collections}


def _id_of(chroma: Served, database: str, name: str) -> str:
    path = f"{chroma.url}/api/v2/tenants/default_tenant/databases/{database}/collections/{name}"
    return str(httpx.get(path).raise_for_status().json()["id"])
