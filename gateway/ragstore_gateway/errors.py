"""The gateway's errors, below those of the kit."""

from __future__ import annotations

from typing import ClassVar

from ragstore.kit.errors import ServiceError


class NotConfigured(ServiceError):
    """A function needs a setting that is not set."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Not configured"


class StoreUnavailable(ServiceError):
    """The store does not respond, or responds with an error."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Store unavailable"
