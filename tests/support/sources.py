"""Sources of knowledge bases: a base with one website, and a client of the routes."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import httpx
import sqlalchemy as sa

from ragstore_gateway.sources.tables import SourceDocumentRow, SourceRunRow, SourceScheduleRow
from tests.support.changing_site import ChangingSite
from tests.support.ingestion import WAIT_SECONDS, Base, EmbeddingServer, State

NAME: Final = "docs"
LONG: Final = "The text of a page is long enough for the extraction of its main content, which skips very short ones. "


def web(site: ChangingSite, **fields: Any) -> dict[str, Any]:
    """The source that is the whole site, without delays."""
    return {"startUrl": f"{site.origin}/", "requestDelayMs": 0, **fields}


def source_of(site: ChangingSite, name: str = NAME, web_fields: dict[str, Any] | None = None, **fields: Any) -> Any:
    """A source."""
    return {"name": name, "web": web(site, **(web_fields or {})), **fields}


class SourceBase(Base):
    """A knowledge base whose sources run."""

    name: str = NAME

    @classmethod
    async def follow(
        cls, client: httpx.AsyncClient, server: EmbeddingServer, *sources: dict[str, Any], **fields: Any
    ) -> SourceBase:
        """Create a base with sources."""
        provider = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": server.url}}
        name = f"base {uuid4().hex[:12]}"
        base = await cls.create(
            client, **{"name": name, "chunkSize": 400, "sources": list(sources), **provider, **fields}
        )
        return cls(client, base.id)

    def at(self, path: str, name: str = NAME) -> str:
        """The path of a route of a source."""
        return f"{self.path}/sources/{name}/{path}"

    async def begin(self, name: str = NAME) -> str:
        """Begin a run.

        Returns:
            Its id.
        """
        response = await self.client.post(self.at("run", name))
        assert response.status_code == 202, response.text
        return str(response.json()["runId"])

    async def read_run(self, run_id: str, name: str = NAME) -> dict[str, Any]:
        """A run."""
        response = await self.client.get(self.at(f"runs/{run_id}", name))
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def run_ended(self, run_id: str, name: str = NAME) -> dict[str, Any]:
        """A run when it has ended."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            found = await self.read_run(run_id, name)
            if found["status"] != "running":
                return found
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.05)

    async def run(self, name: str = NAME) -> dict[str, Any]:
        """Run a source, and wait for the end."""
        return await self.run_ended(await self.begin(name), name)

    async def completed_run(self, name: str = NAME) -> dict[str, Any]:
        """Run a source to its end."""
        found = await self.run(name)
        assert (found["status"], found["reason"]) == ("completed", ""), found
        return found

    async def runs(self, name: str = NAME, **params: Any) -> dict[str, Any]:
        """The history."""
        response = await self.client.get(self.at("runs", name), params=params)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def preview(self, name: str = NAME) -> dict[str, Any]:
        """A preview."""
        response = await self.client.post(self.at("preview", name))
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def purge(self, name: str = NAME) -> httpx.Response:
        """Delete the documents of a source."""
        return await self.client.delete(self.at("documents", name))

    async def upload(
        self, *files: tuple[str, bytes] | tuple[str, bytes, str], name: str = "files", status: int = 200
    ) -> dict[str, Any]:
        """Upload files of a source: name, content and possibly media type of each.

        Returns:
            The response.
        """
        response = await self.client.post(self.at("files", name), files=[("files", each) for each in files])
        assert response.status_code == status, response.text
        found: dict[str, Any] = response.json()
        return found

    async def files(self, name: str = "files", **params: Any) -> dict[str, str]:
        """The files of a source, with the status of each."""
        response = await self.client.get(self.at("files", name), params=params)
        assert response.status_code == 200, response.text
        return {each["name"]: each["status"] for each in response.json()["files"]}

    async def delete_file(self, file: str, name: str = "files") -> httpx.Response:
        """Delete a file."""
        return await self.client.delete(self.at(f"files/{quote(file, safe='')}", name))

    async def names(self) -> set[str]:
        """The names of the documents that searches find."""
        return {each["name"] for each in await self.documents(limit=1000) if each["searchable"]}

    async def found(self, text: str) -> list[str]:
        """The texts of the passages that contain a text."""
        return [each["text"] for each in await self.query(text) if text in each["text"]]

    async def configure(self, *sources: dict[str, Any], version: int = 1) -> httpx.Response:
        """Write a new version with other sources."""
        body = (await self.client.get(self.path)).json()
        return await self.client.put(self.path, params={"version": version}, json={**body, "sources": list(sources)})


def counts(run: dict[str, Any]) -> dict[str, int]:
    """The counts of a run that are not 0, without chunks."""
    names = ("added", "changed", "unchanged", "missing", "removed", "failed", "skipped")
    return {name: run[name] for name in names if run[name]}


def schedule_of(state: State, base_id: str) -> Any:
    """The schedule of a base's source; None without one."""
    rows = state.rows(sa.select(SourceScheduleRow.__table__).where(SourceScheduleRow.base_id == base_id))
    return rows[0] if rows else None


def runs_of(state: State, base_id: str) -> list[Any]:
    """The runs of a base, oldest first."""
    table = SourceRunRow.__table__
    return list(state.rows(sa.select(table).where(table.c.base_id == base_id).order_by(table.c.started_on)))


def documents_of(state: State, base_id: str) -> list[Any]:
    """The documents of a base's sources."""
    table = SourceDocumentRow.__table__
    return list(state.rows(sa.select(table).where(table.c.base_id == base_id)))


def put_pages(site: ChangingSite, *names: str) -> None:
    """Serve pages, and a start page with links to them."""
    for name in names:
        site.article(f"/{name}", name.title(), f"The page {name} is here. {LONG * 3}")
    site.article("/", "Start", f"The start page has links. {LONG * 3}", [f"/{name}" for name in names])
