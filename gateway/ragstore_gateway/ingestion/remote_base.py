"""`RemoteKnowledgeBase`: a knowledge base of a running gateway, for the command that ingests."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

import msgspec

from ragstore_gateway.ingestion.index import Indexed, Text
from ragstore_gateway.ingestion.read import Unreadable
from ragstore_gateway.remote import GatewayFailed, RemoteGateway

FIRST_WAIT_SECONDS: Final = 0.1
MAX_WAIT_SECONDS: Final = 2.0
"""Maximum wait between two requests for the state of an ingestion."""

PAGE: Final = 100
MAX_NAME: Final = 512


class _Descriptor(msgspec.Struct):
    resource: str
    name: str


class _Accepted(msgspec.Struct, rename="camel"):
    ingestion_id: str


class _Status(msgspec.Struct):
    status: str
    chunks: int = 0
    unchanged: bool = False


class RemoteKnowledgeBase:
    """Ingests texts in a knowledge base.

    Args:
        gateway: the gateway.
        name: the base's name.
    """

    def __init__(self, gateway: RemoteGateway, name: str) -> None:
        self._gateway = gateway
        self._name = name
        self._path = ""

    async def open(self) -> None:
        """Find the knowledge base.

        Raises:
            GatewayFailed: there is none of this name, or the gateway cannot be reached.
        """
        query = urlencode({"filter": self._name, "limit": PAGE})
        found = await self._gateway.read(f"/ragstore/rags/descriptors?{query}", list[_Descriptor])
        resource = next((each.resource for each in found if each.name == self._name), None)
        if resource is None:
            raise GatewayFailed(f"There is no knowledge base '{self._name}'")
        self._path = resource.partition("?")[0]

    async def index(self, text: Text) -> Indexed:
        """Ingest a text, and wait until it can be found.

        Args:
            text: the text. Its URL becomes the document's name; for a file, it is the path.

        Raises:
            GatewayFailed: the gateway failed.
            Unreadable: the ingestion failed.
        """
        target = f"{self._path}/ingest?{urlencode({'documentName': _document_name(text.url)})}"
        accepted = await self._gateway.send_text(target, text.text, _Accepted)
        wait = FIRST_WAIT_SECONDS
        while True:
            status = await self._gateway.read(f"{self._path}/ingestion/{accepted.ingestion_id}/status", _Status)
            if status.status == "completed":
                return Indexed(status.chunks, 0, status.unchanged)
            if status.status.startswith("failed"):
                raise Unreadable(status.status.removeprefix("failed: "))
            await asyncio.sleep(wait)
            wait = min(2 * wait, MAX_WAIT_SECONDS)


def _document_name(url: str) -> str:
    """The name of a document: without slashes and spaces at its ends, which the gateway does not accept."""
    parts = urlsplit(url)
    return (unquote(parts.path) if parts.scheme == "file" else url)[-MAX_NAME:].strip("/ ")
