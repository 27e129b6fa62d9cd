"""The DTO of routes that take documents."""

from __future__ import annotations

from typing import Final

import msgspec

from ragstore.api.decode_documents import REQUIRED, decode_documents
from ragstore.api.media_types import Decoded
from ragstore.api.schemas import NewDocuments
from ragstore.errors import InvalidDocuments
from ragstore.kit.decoding import decoded, decoders
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.model.received_documents import ReceivedDocuments


class _Envelope(msgspec.Struct):
    """A request body whose documents are not decoded yet."""

    documents: list[msgspec.Raw] | None = None


_ENVELOPE: Final = decoders(_Envelope)


class DocumentsDTO(Decoded[NewDocuments]):
    """The DTO of a handler with `data: ReceivedDocuments`."""

    def decode(self, value: bytes, format_: str) -> ReceivedDocuments:
        """Decode documents, good and bad.

        Args:
            value: the body.
            format_: `JSON` or `MSGPACK`.

        Raises:
            InvalidDocuments: there are none.
        """
        documents = self._envelope(value, format_).documents
        if not documents:
            raise InvalidDocuments(REQUIRED, [FieldError("$.documents", REQUIRED)])
        return decode_documents(documents, format_)

    @staticmethod
    def _envelope(value: bytes, format_: str) -> _Envelope:
        try:
            return decoded(_ENVELOPE[format_], value, format_)
        except InvalidRequest as error:
            if any(field.path == "$.documents" for field in error.field_errors):
                raise InvalidDocuments(REQUIRED, [FieldError("$.documents", REQUIRED)]) from None
            raise
