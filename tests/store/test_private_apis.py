"""The private parts of other libraries that the Chroma backends rely on are as they expect."""

from __future__ import annotations

import asyncio
import inspect
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import aiohttp
import pytest

from ragstore.chroma.embedded.api import ChromaApi, open_api
from ragstore.chroma.embedded.pool import processes_of
from ragstore.chroma.http.connection import disable_hidden_retry
from tests.support.fake_servers import listening, read_message


@pytest.mark.parametrize("disabled", [False, True])
async def test_aiohttp_repeats_a_deletion_by_itself_unless_that_is_disabled(disabled: bool) -> None:
    received: list[str] = []

    async def lose_the_second_response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Only a request on a connection that was used before is repeated."""
        while True:
            received.append((await read_message(reader))[0].split(" ")[0])
            if len(received) > 1:
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

    async with listening(lose_the_second_response) as url, aiohttp.ClientSession() as session:
        if disabled:
            disable_hidden_retry(session)
        async with session.get(url):
            pass
        with pytest.raises(aiohttp.ServerDisconnectedError):
            async with session.delete(url):
                pass
    assert received == ["GET", "DELETE"] + ([] if disabled else ["DELETE"])


@pytest.mark.process
def test_the_processes_of_a_pool_can_be_found() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pid = pool.submit(os.getpid).result()
        assert [process.pid for process in processes_of(pool)] == [pid]


CALLED = sorted(name for name, member in vars(ChromaApi).items() if inspect.isfunction(member) and name[:2] != "__")
CALLED.remove("_no_init_or_replace_init") if "_no_init_or_replace_init" in CALLED else None


@pytest.mark.parametrize("method", CALLED)
def test_chromadb_has_the_methods_that_are_called_with_their_parameters(method: str) -> None:
    from chromadb.api.rust import RustBindingsAPI

    expected = inspect.signature(getattr(ChromaApi, method)).parameters
    actual = inspect.signature(getattr(RustBindingsAPI, method)).parameters
    assert set(expected) <= set(actual)


def test_chromadb_s_client_gives_that_api(tmp_path: Path) -> None:
    from chromadb.api.rust import RustBindingsAPI

    api = open_api(str(tmp_path))
    assert api.count_collections(tenant="default_tenant", database="default_database") == 0
    assert isinstance(api, RustBindingsAPI)
