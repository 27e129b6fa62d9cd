"""The DTO of routes that take documents."""

from __future__ import annotations

from ragstore.api.decode_documents import DocumentsBody
from ragstore.api.media_types import Decoded
from ragstore.api.schemas import NewDocuments
from ragstore.kit.service import WholeBodyRequest


class DocumentsDTO(Decoded[NewDocuments]):
    """The DTO of a handler with `data: DocumentsBody`, which decodes it in slices of time."""

    def decode(self, value: bytes, format_: str) -> DocumentsBody:
        """Keep the body as it is, and let only the result keep it.

        Args:
            value: the body.
            format_: `JSON` or `MSGPACK`.
        """
        if isinstance(self.asgi_connection, WholeBodyRequest):
            self.asgi_connection.forget_body()
        return DocumentsBody(value, format_)
