"""`StoreAccess`: whether the gateway may write the collections of knowledge bases in a remote store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from ragstore.kit.background import attempted
from ragstore.kit.settings import SettingsError
from ragstore.settings import KEY_VARIABLE, NOTHING_RESERVED
from ragstore.settings import variable as store_variable
from ragstore_client import AsyncClient, RagstoreError
from ragstore_gateway.settings import variable

START_SECONDS: Final = 5.0
"""How long the start waits for the store. The gateway starts without it, and checks the access later."""

RETRY_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


class StoreAccess:
    """Asks a remote store which prefixes it reserves, and whether the gateway's key may write the gateway's own.

    Args:
        client: calls the store.
        prefix: begins the names of the gateway's collections.
        has_key: whether the gateway sends a key.

    Attributes:
        problem: why collections of knowledge bases cannot be used, and what to do; empty if they can be, or if the
            store has not responded yet.
    """

    def __init__(self, client: AsyncClient, prefix: str, *, has_key: bool) -> None:
        self.problem = ""
        self._client = client
        self._prefix = prefix
        self._has_key = has_key

    @asynccontextmanager
    async def checked(self) -> AsyncIterator[None]:
        """Check the access, and again in the background until it is sufficient.

        Raises:
            SettingsError: the store reserves other prefixes than the gateway's.
        """
        async with attempted(self._is_sufficient, every=RETRY_SECONDS, start_seconds=START_SECONDS):
            if self._is_mismatch:
                raise SettingsError(self.problem)
            yield

    @property
    def _is_mismatch(self) -> bool:
        return self.problem.startswith(variable("collection_prefix"))

    async def _is_sufficient(self) -> bool:
        return await self._check() and not self.problem

    async def _check(self) -> bool:
        """Ask the store. Returns whether it has responded; a service that is no store, such as a gateway, has not."""
        try:
            reserved = (await self._client.health(retries=0)).details.reserved_prefixes
        except RagstoreError:
            return False
        before, self.problem = self.problem, self._problem_of(reserved)
        if self.problem and self.problem != before:
            _log.error("knowledge bases cannot use the store", reason=self.problem)
        elif before and not self.problem:
            _log.info("knowledge bases can use the store")
        return True

    def _problem_of(self, reserved: dict[str, bool]) -> str:
        if not reserved or reserved.get(self._prefix):
            return ""
        if self._prefix not in reserved:
            return (
                f"{variable('collection_prefix')} is {self._prefix!r}, and the store reserves "
                f"{', '.join(map(repr, sorted(reserved)))}: {store_variable('reserved_prefixes')} of the store must "
                "contain it"
            )
        if self._has_key:
            return (
                f"The gateway's key of the store ({KEY_VARIABLE}) may not write collections that begin with "
                f"'{self._prefix}': make one with `ragstore keys new gateway --role admin "
                f"--collections '{self._prefix}*' --collections memory`"
            )
        return (
            f"The store has no keys and reserves '{self._prefix}': set {store_variable('reserved_prefixes')}="
            f"{NOTHING_RESERVED} for the store, or give it keys, and the gateway one of them as {KEY_VARIABLE}"
        )
