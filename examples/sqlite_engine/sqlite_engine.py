"""The declaration of an engine. The gateway imports it at its start, so it imports no driver."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from ragstore_gateway.engines.engine import Engine
from ragstore_gateway.engines.store_parameters import Parameters


class SqliteParameters(Parameters, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `sqlite`.

    Attributes:
        file: the path of the database.
    """

    file: Annotated[str, Meta(min_length=1)]


ENGINE = Engine("sqlite", SqliteParameters, "sqlite_store")
