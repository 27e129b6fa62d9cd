"""Uploaded files: what a source holds, and what its runs make of it."""

from __future__ import annotations

import io
import zipfile

import httpx
import pytest

from ragstore_gateway.sources.file_tables import SourceFileRow
from tests.support.ingestion import EmbeddingServer, State
from tests.support.problems import assert_problem, paths_of
from tests.support.sources import SourceBase, counts

pytestmark = pytest.mark.process

FILES = {"name": "files", "type": "upload"}
TEA = b"Green tea is brewed at eighty degrees."
POTS = b"# Pots\n\nA teapot of iron keeps the heat."


@pytest.fixture
async def base(client: httpx.AsyncClient, server: EmbeddingServer) -> SourceBase:
    """A base with an upload source."""
    return await SourceBase.follow(client, server, FILES)


async def test_a_run_ingests_uploaded_files_under_their_names(base: SourceBase, server: EmbeddingServer) -> None:
    response = await base.upload(("tea.txt", TEA, "text/plain"), ("pots.md", POTS))
    assert [(each["name"], each["status"]) for each in response["stored"]] == [
        ("tea.txt", "waiting"),
        ("pots.md", "waiting"),
    ]
    assert response["rejected"] == []
    assert await base.names() == set()
    found = await base.completed_run("files")
    assert counts(found) == {"added": 2}
    assert await base.names() == {"files/tea.txt", "files/pots.md"}
    assert await base.files() == {"pots.md": "indexed", "tea.txt": "indexed"}
    assert await base.found("eighty degrees")
    before = server.texts.total()
    found = await base.completed_run("files")
    assert (counts(found), found["chunks"], server.texts.total()) == ({"unchanged": 2}, 0, before)


async def test_a_media_type_that_is_none_is_ignored(base: SourceBase) -> None:
    files = (("a.txt", TEA, "text/plain\0x"), ("b.md", POTS, "text"), ("c.txt", TEA, " Text/Plain; charset=utf-8"))
    stored = (await base.upload(*files))["stored"]
    assert [each["mediaType"] for each in stored] == ["", "", "text/plain"]
    assert counts(await base.completed_run("files")) == {"added": 3}


async def test_a_file_of_the_same_name_replaces_the_former_one(base: SourceBase) -> None:
    await base.upload(("tea.txt", TEA), ("pots.md", POTS))
    await base.completed_run("files")
    await base.upload(("tea.txt", b"Black tea is brewed with boiling water."))
    assert await base.files() == {"pots.md": "indexed", "tea.txt": "changed"}
    assert await base.found("eighty degrees")
    assert counts(await base.completed_run("files")) == {"changed": 1, "unchanged": 1}
    assert not await base.found("eighty degrees")
    assert await base.found("boiling water")


async def test_a_deleted_file_is_not_found_after_the_response(base: SourceBase, state: State) -> None:
    await base.upload(("tea.txt", TEA), ("pots.md", POTS))
    await base.completed_run("files")
    assert (await base.delete_file("tea.txt")).status_code == 204
    assert await base.names() == {"files/pots.md"}
    assert not await base.found("eighty degrees")
    assert await base.files() == {"pots.md": "indexed"}
    assert_problem(await base.delete_file("tea.txt"), 404, "source_file_not_found")
    assert counts(await base.completed_run("files")) == {"unchanged": 1}
    assert state.chunks(base.id) == sum(each["chunks"] for each in await base.documents())


async def test_files_are_rejected_one_by_one(base: SourceBase) -> None:
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("a.txt", "text")
    response = await base.upload(
        ("tea.txt", TEA),
        ("empty.txt", b" \n"),
        ("picture.png", b"\x89PNG\r\n\x1a\n" + b"x" * 20, "image/png"),
        ("archive.zip", package.getvalue()),
        ("false.pdf", b"text", "application/pdf"),
        ("a/../b.txt", TEA),
        ("a\u2028b.txt", TEA),
        ("\u202etxt.b", TEA),
    )
    assert [each["name"] for each in response["stored"]] == ["tea.txt"]
    assert [each["fileName"] for each in response["rejected"]] == [
        "empty.txt",
        "picture.png",
        "archive.zip",
        "false.pdf",
        "a/../b.txt",
        "a\u2028b.txt",
        "\u202etxt.b",
    ]
    assert await base.files() == {"tea.txt": "waiting"}


async def test_an_upload_of_which_nothing_is_stored_is_400_with_the_path_of_each_file(base: SourceBase) -> None:
    response = await base.client.post(
        base.at("files", "files"), files=[("files", ("a.txt", b"")), ("files", (" .txt", TEA))]
    )
    assert paths_of(assert_problem(response, 400, "invalid_request")) == ["$.files[0]", "$.files[1]"]
    for content in ({"data": {"files": "x"}}, {"files": [("files", (f"{n}", TEA)) for n in range(101)]}):
        response = await base.client.post(base.at("files", "files"), **content)
        assert response.status_code in (400, 415)
    response = await base.client.post(base.at("files", "files"), content=b"--x", headers={"Content-Type": "text/plain"})
    assert_problem(response, 415, "unsupported_media_type")
    assert await base.files() == {}


async def test_a_source_has_a_maximum_of_files_and_of_bytes(client: httpx.AsyncClient, server: EmbeddingServer) -> None:
    upload = {"maxFiles": 2, "maxFileBytes": 100, "maxTotalBytes": 120}
    base = await SourceBase.follow(client, server, {**FILES, "upload": upload})
    response = await base.upload(
        ("a.txt", b"a" * 60), ("b.txt", b"b" * 101), ("c.txt", b"c" * 61), ("d.txt", b"d" * 60)
    )
    assert [each["name"] for each in response["stored"]] == ["a.txt", "d.txt"]
    assert [each["reason"] for each in response["rejected"]] == [
        "A file must not be larger than 100 bytes",
        "The files of the source would have more than 120 bytes",
    ]
    await base.upload(("e.txt", b"e"), status=400)
    # A file that is replaced counts once.
    await base.upload(("a.txt", b"a" * 59))
    listed = (await client.get(base.at("files", "files"), params={"limit": 1, "index": 1})).json()
    assert ([each["name"] for each in listed["files"]], listed["total"], listed["totalBytes"]) == (["d.txt"], 2, 119)


async def test_a_file_that_cannot_be_read_fails_alone(base: SourceBase) -> None:
    await base.upload(("tea.txt", TEA), ("damaged.pdf", b"%PDF-1.7\nno pages"))
    found = await base.completed_run("files")
    assert counts(found) == {"added": 1, "failed": 1}
    assert await base.files() == {"damaged.pdf": "waiting", "tea.txt": "indexed"}
    pages = {each["url"]: each["outcome"] for each in (await base.preview("files"))["pages"]}
    assert pages == {"files/damaged.pdf": "failed", "files/tea.txt": "unchanged"}


async def test_a_text_beyond_the_maximum_length_is_cut_off(client: httpx.AsyncClient, server: EmbeddingServer) -> None:
    base = await SourceBase.follow(client, server, {**FILES, "settings": {"maxContentLength": 40}})
    await base.upload(("long.txt", TEA + b" Its end is not embedded."))
    await base.completed_run("files")
    assert await base.found("eighty degrees")
    assert not await base.found("end is not")


async def test_two_sources_keep_their_own_files_of_one_name(client: httpx.AsyncClient, server: EmbeddingServer) -> None:
    base = await SourceBase.follow(client, server, FILES, {**FILES, "name": "others"})
    await base.upload(("tea.txt", TEA))
    await base.upload(("tea.txt", b"Another tea."), name="others")
    await base.completed_run("files")
    await base.completed_run("others")
    assert await base.names() == {"files/tea.txt", "others/tea.txt"}
    assert (await base.delete_file("tea.txt", "others")).status_code == 204
    assert await base.names() == {"files/tea.txt"}


async def test_a_purge_keeps_the_files_for_the_next_run(base: SourceBase) -> None:
    await base.upload(("tea.txt", TEA))
    await base.completed_run("files")
    assert (await base.purge("files")).status_code == 204
    assert await base.names() == set()
    assert await base.files() == {"tea.txt": "waiting"}
    assert counts(await base.completed_run("files")) == {"added": 1}


async def test_no_file_is_deleted_while_a_run_may_ingest_it(base: SourceBase, server: EmbeddingServer) -> None:
    await base.upload(("tea.txt", TEA))
    server.held = TEA.decode()
    try:
        run_id = await base.begin("files")
        problem = assert_problem(await base.delete_file("tea.txt"), 409, "source_running")
        assert run_id in str(problem)
    finally:
        server.held = "\0"
    await base.run_ended(run_id, "files")
    assert (await base.delete_file("tea.txt")).status_code == 204
    assert await base.names() == set()


async def test_a_website_has_no_files_and_a_source_that_is_not_there_neither(
    client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    base = await SourceBase.follow(client, server, {"name": "site", "web": {"startUrl": "https://docs.example/"}})
    files = [("files", ("a.txt", TEA))]
    assert_problem(await client.post(base.at("files", "site"), files=files), 409, "not_an_upload_source")
    assert_problem(await client.get(base.at("files", "site")), 409, "not_an_upload_source")
    assert_problem(await client.post(base.at("files", "none"), files=files), 404, "source_not_found")
    path = base.at("files", "site").replace(base.id, "none")
    assert_problem(await client.get(path), 404, "configuration_not_found")


async def test_files_of_a_source_that_is_no_longer_configured_can_be_listed_and_deleted(
    base: SourceBase, state: State
) -> None:
    await base.upload(("tea.txt", TEA))
    await base.completed_run("files")
    assert (await base.configure()).status_code == 200
    assert await base.files() == {"tea.txt": "indexed"}
    assert await base.names() == {"files/tea.txt"}
    assert (await base.delete_file("tea.txt")).status_code == 204
    assert await base.names() == set()


async def test_the_permanent_deletion_of_a_base_removes_its_files_and_a_copy_has_none(
    base: SourceBase, state: State
) -> None:
    await base.upload(("tea.txt", TEA))
    copy = (await base.client.post(base.path)).headers["Location"].partition("?")[0]
    assert (await base.client.get(f"{copy}/sources/files/files")).json()["files"] == []
    table = SourceFileRow.__table__
    assert len(state.rows(table.select().where(table.c.base_id == base.id))) == 1
    await base.client.delete(base.path, params={"permanent": True})
    assert not state.rows(table.select().where(table.c.base_id == base.id))
