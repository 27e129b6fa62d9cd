"""`RemoteKnowledgeBase`: a knowledge base of a running gateway, for the command that ingests."""

from __future__ import annotations

from ragstore_gateway.commands.gateway_connection import GatewayConnection
from ragstore_gateway.commands.kb.client import KnowledgeBases
from ragstore_gateway.commands.kb.ingest import until_ended
from ragstore_gateway.commands.read import Unreadable
from ragstore_gateway.ingestion.names import name_of_url
from ragstore_gateway.plain_collections.index import Indexed, Text


class RemoteKnowledgeBase:
    """Ingests texts in a knowledge base.

    Args:
        connection: the connection to the gateway.
        name: the base's name.
    """

    def __init__(self, connection: GatewayConnection, name: str) -> None:
        self._bases = KnowledgeBases(connection)
        self._name = name
        self._id = ""

    async def open(self) -> None:
        """Find the knowledge base.

        Raises:
            GatewayFailed: there is none of this name, or the gateway cannot be reached.
        """
        self._id = (await self._bases.find(self._name)).id

    async def index(self, text: Text) -> Indexed:
        """Ingest a text, and wait until it can be found.

        Args:
            text: the text. Its URL becomes the document's name; for a file, it is the path.

        Raises:
            GatewayFailed: the gateway failed.
            Unreadable: the ingestion failed.
        """
        name = name_of_url(text.url)
        ingestion_id = await self._bases.ingest(self._id, name, text.text.encode(), "text/plain")
        state = await until_ended(self._bases, self._id, ingestion_id)
        if state.status != "completed":
            raise Unreadable(state.status.removeprefix("failed: "))
        return Indexed(state.chunks, 0, state.unchanged)
