"""`Quirk`: what Chroma does that ragstore works around, attached to the test that shows it.

Each test asserts what Chroma does today, against bare Chroma. It fails when Chroma is fixed, and the report of that
failure names the code that may go. `scripts/quirks_page.py` makes docs/chroma-quirks.md of the same data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

import pytest

Store: TypeAlias = Literal["embedded", "server"]
Test = TypeVar("Test", bound=Callable[..., object])

STORES: Final[tuple[Store, ...]] = ("embedded", "server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirk:
    """Something that Chroma does.

    Attributes:
        name: a short name, which no other quirk has.
        summary: what Chroma does.
        workaround: what ragstore does about it.
        works_around: the code that may go when Chroma is fixed, as `module` or `module:function`; empty when there is
            none.
        upstream: issue or pull request of chroma-core/chroma, with its title; None when none is known.
        stores: where it holds.
        covered_by: the test that shows it, for a quirk that has none in this folder.
    """

    name: str
    summary: str
    workaround: str
    works_around: tuple[str, ...]
    upstream: str | None = None
    stores: tuple[Store, ...] = STORES
    covered_by: str = ""

    @property
    def when_fixed(self) -> str:
        """The instructions for the case that the test fails."""
        code = ", ".join(self.works_around) or "no code of ragstore's depends on it"
        return (
            f"Chroma may no longer do this: {self.summary}\n"
            f"If that is so, this code may go: {code}\n"
            f"Upstream: {self.upstream or 'no issue known'}\n"
            "Then remove the test, and run scripts/quirks_page.py."
        )


SHOWN: Final[dict[str, tuple[Quirk, Callable[..., object]]]] = {}
"""The quirks that have a test here, by their names, in the order in which the tests were imported."""


def shows(quirk: Quirk) -> Callable[[Test], Test]:
    """Attach a quirk to the test that shows it.

    A test that takes `client` runs once for each store in which the quirk holds.

    Returns:
        A decorator.
    """

    def attach(test: Test) -> Test:
        if quirk.name in SHOWN:
            raise ValueError(f"Two tests show {quirk.name}")
        SHOWN[quirk.name] = (quirk, test)
        if "client" in inspect.signature(test).parameters:
            pytest.mark.parametrize("client", quirk.stores, indirect=True)(test)
        return test

    return attach


def shown_by(test: object) -> Quirk | None:
    """The quirk that a test function shows, if any."""
    return next((quirk for quirk, function in SHOWN.values() if function is test), None)
