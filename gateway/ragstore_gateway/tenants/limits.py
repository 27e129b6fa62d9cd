"""`TenantLimits`: the limits of a tenant, as the settings have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ragstore.kit.settings import SettingsError
from ragstore_gateway.keys import TENANT_PATTERN
from ragstore_gateway.settings import variable

OTHERS: Final = "*"
"""The name under which the settings have the limits of all tenants that they do not name."""

NAME: Final = rf"^\*$(?!\n)|{TENANT_PATTERN}"

Maximum: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Rate: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]


class TenantLimits(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The limits of a tenant. None is no limit.

    Attributes:
        max_bases: maximum number of knowledge bases that are not deleted.
        max_documents: maximum number of documents of all its bases.
        max_bytes: maximum size of these documents, of files of sources of these bases, and of uploaded files together.
        requests_per_minute: maximum number of requests in a minute of the clock.
        tokens_per_day: maximum number of tokens of chats in a day of UTC.
    """

    max_bases: Maximum | None = None
    max_documents: Maximum | None = None
    max_bytes: Maximum | None = None
    requests_per_minute: Rate | None = None
    tokens_per_day: Rate | None = None


NO_LIMITS: Final = TenantLimits()


class LimitsByTenant:
    """The limits of all tenants.

    Args:
        given: for each tenant, the fields of `TenantLimits`; `*` has the limits of all others.

    Raises:
        SettingsError: a name or a limit is not valid.
    """

    def __init__(self, given: Mapping[str, Mapping[str, int]]) -> None:
        try:
            self._limits = msgspec.convert(given, dict[Annotated[str, Meta(pattern=NAME)], TenantLimits])
        except msgspec.ValidationError as error:
            raise SettingsError(f"{variable('tenants')} is wrong: {error}") from None
        self._others = self._limits.get(OTHERS, NO_LIMITS)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of(self, tenant: str) -> TenantLimits:
        """The limits of a tenant.

        Args:
            tenant: empty for keys and knowledge bases of no tenant, which have no limits.
        """
        return self._limits.get(tenant, self._others) if tenant else NO_LIMITS

    @property
    def named(self) -> list[str]:
        """The tenants that the settings name."""
        return [name for name in self._limits if name != OTHERS]
