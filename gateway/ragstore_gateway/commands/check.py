"""`ragstore-gateway check`: shows the settings, and tries everything that they name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from multidict import CIMultiDict

from ragstore.kit.auth.keys import KeysError
from ragstore.kit.command_line import one_line
from ragstore.kit.errors import ServiceError, StartFailed
from ragstore.kit.settings import SettingsError
from ragstore_client import RagstoreError
from ragstore_gateway.settings import Settings, variable

CHECK_SECONDS: Final = 15.0
"""Maximum time of each check. All of them run concurrently."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    Attributes:
        subject: what was tried.
        text: one sentence about it.
        is_usable: whether it can be used.
    """

    subject: str
    text: str
    is_usable: bool = True


async def check_all(settings: Settings) -> Sequence[Checked]:
    """Try everything that the settings name. Nothing is written, and no data folder is created.

    Returns:
        The result of each check.
    """
    checks: dict[str, Callable[[Settings], Awaitable[str]]] = {
        "Settings": _settings,
        "Keys": _keys,
        "Database": _database,
        "Store": _store,
        **({"Engines": _engines} if settings.engines else {}),
        "Embedding provider": _embedding_provider,
        "Model server": _upstream,
    }
    return await asyncio.gather(*(_checked(subject, check(settings)) for subject, check in checks.items()))


async def _checked(subject: str, check: Awaitable[str]) -> Checked:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return Checked(subject, await check)
    except TimeoutError:
        return Checked(subject, f"no response within {CHECK_SECONDS:g} s", is_usable=False)
    except ServiceError as error:
        cause = f": {error.cause}" if error.cause else ""
        return Checked(subject, f"{error.detail}{cause}", is_usable=False)
    except (click.ClickException, KeysError, RagstoreError, SettingsError, StartFailed, OSError) as error:
        return Checked(subject, str(error), is_usable=False)


async def _settings(settings: Settings) -> str:
    from ragstore_gateway.app import SERVICE
    from ragstore_gateway.engines.engine import EngineInvalid
    from ragstore_gateway.engines.engines import check_installed

    SERVICE.check_access(settings)
    with one_line(EngineInvalid):
        check_installed()
    return "valid"


async def _keys(settings: Settings) -> str:
    from ragstore_gateway.app import key_ring

    if key_ring(settings) is None:
        return f"none: everyone who reaches the gateway may do everything ({variable('keys_file')})"
    return f"valid, in {settings.keys_file}"


async def _database(settings: Settings) -> str:
    from ragstore_gateway.database.database import Database

    database = Database.from_settings(settings)
    if not database.is_postgresql and not _exists(str(database.url.database)):
        return f"none in {settings.data_path} yet: the first start creates it"
    return await database.examine()


async def _store(settings: Settings) -> str:
    from ragstore.app import check_data
    from ragstore_gateway.settings import load_store
    from ragstore_gateway.store.store import Store

    store = Store.from_env(settings, threading.Event())
    if store.in_process:
        own = load_store(settings)
        if own.store == "embedded" and not _exists(f"{own.data_path}/chroma.sqlite3"):
            return f"none in {own.data_path} yet: the first start creates it"
        check_data(own)
    async with store.running():
        await store.client.ready(retries=0)
        if store.problem:
            raise click.ClickException(store.problem)
    return "available in the process of the gateway" if store.in_process else f"{store.client.base_url} is available"


async def _engines(settings: Settings) -> str:
    from ragstore_gateway.app import create_secrets
    from ragstore_gateway.engines.assembly import Engines
    from ragstore_gateway.engines.named_engines import ENGINE_KEY, named_engines
    from ragstore_gateway.secrets.connections import Connections
    from ragstore_gateway.store.store import Store

    async with Connections() as connections:
        secrets = create_secrets(settings, connections)
        named = named_engines(settings.engines, secrets)
        # The check of the store tries the gateway's own.
        others = [name for name, each in named.items() if each.store_type != "ragstore" or each.parameters]
        engines = Engines(secrets, Store.from_env(settings, threading.Event()).client, named=named)
        async with engines.running():
            for name in others:
                await engines.open(named[name].store_type, {ENGINE_KEY: name}, "check", 1).count()
    return f"available: {', '.join(named)}"


def _exists(path: str) -> bool:
    """Whether a file exists. Nothing else runs in this process, so the look at the disk holds nothing up."""
    return Path(path).exists()


async def _embedding_provider(settings: Settings) -> str:
    from ragstore_gateway.app import create_embeddings

    embeddings = await asyncio.to_thread(create_embeddings, settings)
    async with embeddings.running():
        vectors = await embeddings.default.embed(["check"], "query")
    return f"{embeddings.default.name} is available: vectors of {vectors.shape[1]} components"


async def _upstream(settings: Settings) -> str:
    from ragstore_gateway.chat.models import read_models
    from ragstore_gateway.chat.upstream import Upstream

    if not settings.upstream_url:
        return f"none: there is no chat ({variable('upstream_url')})"
    upstream = Upstream(settings)
    headers = CIMultiDict({"Authorization": upstream.authorization} if upstream.authorization else {})
    async with upstream.running():
        response = await upstream.send("GET", "/models", headers, decompress=True)
        async with response:
            if response.status != 200:
                raise click.ClickException(f"GET /models: status {response.status}")
            try:
                models = read_models(await response.read())
            except ValueError:
                raise click.ClickException("GET /models: the response is no list of models") from None
    return f"available: {len(models)} models"
