"""The table of the requests and tokens of tenants."""

from __future__ import annotations

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.database.base import Base
from ragstore_gateway.keys import TENANT_LENGTH


class TenantUsageRow(Base):
    """The requests of a tenant in a minute, or its tokens in a day, of all replicas."""

    __tablename__ = "tenant_usage"

    tenant: Mapped[str] = mapped_column(String(TENANT_LENGTH), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    """`requests` or `tokens`."""
    period: Mapped[int] = mapped_column(BigInteger)
    """The minute or the day, as their number since 1970."""
    used: Mapped[int] = mapped_column(BigInteger)
    """The number in this period, with the shares that replicas have taken and not used yet."""
