"""Documents as resources."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from tests.gateway.mcp.conftest import KETTLE, Agents
from tests.gateway.mcp.test_tools import called

pytestmark = pytest.mark.process


async def test_documents_of_all_bases_are_listed_page_by_page(agents: Agents) -> None:
    found = []
    cursor: str | None = None
    async with agents.client() as client:
        while True:
            page = await client.list_resources(cursor=cursor)
            found += [(each.uri, each.name) for each in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
    assert len(found) == len(set(found))
    assert ("ragstore://team_kettle/kettle.txt", "kettle.txt") in found
    assert ("ragstore://team_manuals/boiler/manual.md", "boiler/manual.md") in found


async def test_a_document_is_read_by_its_address(agents: Agents) -> None:
    async with agents.client() as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "ragstore://{base}/{+name}"
        (contents,) = (await client.read_resource("ragstore://team_kettle/kettle.txt")).contents
    assert contents.model_dump()["text"] == KETTLE
    assert contents.mime_type == "text/plain"


@pytest.mark.parametrize(
    "uri", ["https://example.org/x", "ragstore://team_kettle", "ragstore:///x", "ragstore://%FF/x"]
)
async def test_other_addresses_are_errors(agents: Agents, uri: str) -> None:
    async with agents.client() as client:
        with pytest.raises(MCPError, match="The address of a document is ragstore://BASE/NAME"):
            await client.read_resource(uri)


async def test_a_document_that_does_not_exist_is_an_error(agents: Agents) -> None:
    async with agents.client() as client:
        with pytest.raises(MCPError, match=r"has no document with the name 'tea\.txt'"):
            await client.read_resource("ragstore://team_kettle/tea.txt")


async def test_a_cursor_of_another_list_is_an_error(agents: Agents) -> None:
    async with agents.client() as client:
        with pytest.raises(MCPError, match=r"Must be the cursor of an earlier page: \$.cursor"):
            await client.list_resources(cursor="page-2")


async def test_a_document_that_was_deleted_is_gone(agents: Agents) -> None:
    agents.ingest("team_kettle", "old.txt", "The old kettle was blue.")
    async with agents.client() as client:
        found = (await called(client, "search", query="The old kettle was blue.", limit=10))["results"]
        # The ranks of bases compare by calibrations, which depend on the questions before.
        passage = next(each for each in found if each["title"] == "old.txt")
        path = f"/ragstore/rags/{agents.ids['team_kettle']}/documents/old.txt"
        assert agents.call("DELETE", path).status_code == 204
        result = await client.call_tool("fetch", {"id": passage["id"]})
        assert result.is_error
        with pytest.raises(MCPError, match="has no document"):
            await client.read_resource("ragstore://team_kettle/old.txt")
