"""A small service on the kit, for its tests: `python -m tests.kit.tea_service`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from litestar import get, post
from litestar.datastructures import State

from ragstore.kit.auth.keys import KeyFormat, KeyScope
from ragstore.kit.auth.roles import requires
from ragstore.kit.context import backend_timing, record_write
from ragstore.kit.errors import Conflict
from ragstore.kit.service import Service
from ragstore.kit.settings import SECRET, ServerSettings, load


class TeaSettings(ServerSettings, frozen=True, kw_only=True):
    """The settings of the tea service.

    Attributes:
        cups: cups in the pot.
        recipe: secret recipe.
    """

    cups: Annotated[int, msgspec.Meta(ge=1)] = 2
    recipe: Annotated[str, SECRET] = ""


class TeaScope(KeyScope, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The scope of a key in the tea service."""

    role: Literal["guest", "host"]
    teas: tuple[str, ...] | None = None


class TeapotEmpty(Conflict, title="Teapot empty"):
    """No cup is left."""


class Cups(msgspec.Struct):
    """Cups that are left."""

    left: int


SERVICE = Service("tea", "1.0", "TEA_", backend="kettle", resource="pot")
KEYS = KeyFormat("tea", TeaScope)


@get("/cups", opt=requires("guest"))
async def count_cups(state: State) -> Cups:
    """Count the cups that are left."""
    return Cups(state.left)


@post("/pots/{pot_name:str}/pour", opt=requires("host"), operation_id="pour")
async def pour(pot_name: str, data: Cups, state: State) -> Cups:
    """Pour cups.

    Raises:
        TeapotEmpty: there are not enough.
    """
    record_write(pot_name, data.left)
    with backend_timing():
        if state.left < data.left:
            raise TeapotEmpty(f"The pot '{pot_name}' has {state.left} cups")
        state.left -= data.left
    return Cups(state.left)


@get("/broken", opt=requires("guest"))
async def broken() -> None:
    """Fail with a text that no log line may have."""
    raise RuntimeError("canary")


@get("/undeclared")
async def undeclared() -> None:
    """A route whose role was forgotten."""


def main() -> None:
    """Serve."""
    settings = load(TeaSettings, "TEA_")
    SERVICE.run([count_cups, pour, broken, undeclared], settings, KEYS, state=State({"left": settings.cups}))


if __name__ == "__main__":
    main()
