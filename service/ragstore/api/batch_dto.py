"""The DTO of routes that take documents."""

from __future__ import annotations

from typing import Final

import msgspec

from ragstore.api.decode_documents import REQUIRED, check_ids, decode_batch
from ragstore.api.media_types import Decoded
from ragstore.api.schemas import NewDocuments
from ragstore.errors import InvalidDocuments
from ragstore.kit.decoding import decoded, decoders
from ragstore.kit.errors import FieldProblem, InvalidRequest
from ragstore.model.documents import Batch


class _Envelope(msgspec.Struct):
    """A request whose documents are left undecoded."""

    documents: list[msgspec.Raw] | None = None


_ENVELOPE: Final = decoders(_Envelope)


class BatchDTO(Decoded[NewDocuments]):
    """The DTO of a handler that takes `data: Batch`."""

    def decode(self, value: bytes, format_: str) -> Batch:
        """Decode documents into a batch.

        Args:
            value: the body.
            format_: `JSON` or `MSGPACK`.

        Returns:
            The batch.

        Raises:
            InvalidDocuments: something is wrong with the documents; it says what and where.
            InvalidMetadata: something is wrong with a document's metadata.
            DimensionMismatch: the embeddings are of different dimensions.
        """
        documents = self._envelope(value, format_).documents
        if not documents:
            raise InvalidDocuments(REQUIRED, [FieldProblem("$.documents", REQUIRED)])
        batch = decode_batch(documents, format_)
        check_ids(batch.ids)
        return batch

    @staticmethod
    def _envelope(value: bytes, format_: str) -> _Envelope:
        try:
            return decoded(_ENVELOPE[format_], value, format_)
        except InvalidRequest as error:
            if any(problem.path == "$.documents" for problem in error.problems):
                raise InvalidDocuments(REQUIRED, [FieldProblem("$.documents", REQUIRED)]) from None
            raise
