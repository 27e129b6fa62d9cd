"""Models in the gateway's process: the built-in ones, those in folders, and those of sentence-transformers."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from ragstore_gateway.embeddings import builtin
from ragstore_gateway.embeddings.providers.provider import Parameters, Prefix, ProviderDeclaration


class LocalParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `local`. The prefixes are for models other than the built-in ones.

    `sha256` is the hash of the files of `onnx:FOLDER`. The gateway writes it into a base: with other files, the folder
    is another model.
    """

    model: str = builtin.DEFAULT
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    query_prefix: Prefix | None = None
    document_prefix: Prefix | None = None
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="64 hexadecimal digits")] | UnsetType = (
        UNSET
    )


LOCAL: Final = ProviderDeclaration("local", LocalParameters, None)
