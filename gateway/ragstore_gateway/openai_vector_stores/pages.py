"""Pages of lists, by cursors: `after` and `before` are ids of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, Protocol, TypeAlias, TypeVar, TypeVarTuple

import sqlalchemy as sa
from litestar.params import QueryParameter
from sqlalchemy.orm import InstrumentedAttribute

Order: TypeAlias = Literal["asc", "desc"]
MAX_PAGE = 100
MAX_FILE_PAGE = 10_000

LimitParameter: TypeAlias = Annotated[
    int, QueryParameter(ge=1, le=MAX_PAGE, description="Maximum number of items on the page.")
]
OrderParameter: TypeAlias = Annotated[Order, QueryParameter(description="Order by the time of creation.")]
AfterParameter: TypeAlias = Annotated[str, QueryParameter(max_length=64, description="Id of the item before the page.")]
BeforeParameter: TypeAlias = Annotated[str, QueryParameter(max_length=64, description="Id of the item after the page.")]


class HasId(Protocol):
    """An item of a list."""

    @property
    def id(self) -> str:
        """Its id."""


T = TypeVar("T", bound=HasId)
Ts = TypeVarTuple("Ts")
Columns: TypeAlias = tuple[InstrumentedAttribute[datetime], InstrumentedAttribute[str]]
"""The columns that a list is ordered by: the time of creation, and an id."""

Position: TypeAlias = tuple[datetime, str]
"""The values of these columns for one item."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A page of a list.

    Attributes:
        limit: maximum number of items.
        after: id of the item before the page; empty for the first page.
        before: id of the item after the page; empty for none.
    """

    limit: int
    order: Order
    after: str = ""
    before: str = ""

    def apply(
        self, query: sa.Select[*Ts], columns: Columns, after: Position | None, before: Position | None
    ) -> sa.Select[*Ts]:
        """Limit a query to the page, and one item more. With `before` alone, the rows are in reverse order.

        Args:
            query: selects all items.
            columns: the columns that order them.
            after: position of the item before the page; None for none.
            before: position of the item after the page; None for none.
        """
        row = sa.tuple_(*columns)
        ascending = self.order == "asc"
        for position, is_later in ((after, ascending), (before, not ascending)):
            if position is not None:
                values = (sa.literal(value, column.type) for value, column in zip(position, columns, strict=True))
                edge = sa.tuple_(*values)
                query = query.where(row > edge if is_later else row < edge)
        forwards = ascending != self.is_backwards
        order = [column.asc() if forwards else column.desc() for column in columns]
        return query.order_by(*order).limit(self.limit + 1)

    @property
    def is_backwards(self) -> bool:
        """Whether the page ends before an item: its rows are read in reverse order."""
        return bool(self.before) and not self.after

    def cut(self, items: Sequence[T]) -> tuple[list[T], bool]:
        """The items of the page in their order, and whether there are more beyond it.

        Args:
            items: the items of the rows.
        """
        page = list(items[: self.limit])
        return page[::-1] if self.is_backwards else page, len(items) > self.limit


def ends(items: Sequence[HasId]) -> tuple[str | None, str | None]:
    """The ids of the first and the last item of a page."""
    return (items[0].id, items[-1].id) if items else (None, None)
