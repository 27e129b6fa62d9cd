"""The operations of a round. Each is made from the seed and its number alone, so a prefix has the same operations."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "upload",
    "upload again",
    "large upload",
    "deletion",
    "cancellation",
    "re-indexing",
    "foreign write",
    "forbidden call",
    "status",
    "list",
    "search",
    "search for all",
    "search by own text",
    "kill",
]

WEIGHTS: Final[dict[Kind, float]] = {
    "upload": 14,
    "upload again": 4,
    "large upload": 0.5,
    "deletion": 8,
    "cancellation": 3,
    "re-indexing": 0.8,
    "foreign write": 1,
    "forbidden call": 3,
    "status": 12,
    "list": 4,
    "search": 8,
    "search for all": 10,
    "search by own text": 36,
}

KEYS: Final = ("first", "second")
"""Names of the two keys. Each has bases of its own."""

BASES: Final = 4
NAMES: Final = 8
"""Names of documents in each base, the same ones in all bases."""

SIZES: Final = (1, 1, 2, 3, 6, 6, 40)
"""Numbers of lines of documents."""

LARGE: Final = 160
"""Number of lines of a large document. The splitter cuts texts of more than 16,384 characters into pieces first."""

WORDS: Final = (
    "kettle",
    "anchor",
    "forest",
    "ledger",
    "winter",
    "copper",
    "train",
    "garden",
    "signal",
    "harbour",
    "pepper",
    "violin",
    "mirror",
    "desert",
    "engine",
    "butter",
    "castle",
    "dragon",
    "fabric",
    "guitar",
    "hammer",
    "island",
    "jacket",
    "kitchen",
    "ladder",
    "magnet",
    "needle",
    "orange",
    "pencil",
    "quarry",
    "rabbit",
    "saddle",
    "tunnel",
    "umbrella",
    "valley",
    "window",
    "yellow",
    "zebra",
    "basket",
    "candle",
    "diesel",
    "eagle",
    "feather",
    "glacier",
    "honey",
    "insect",
    "jungle",
    "kernel",
    "lemon",
    "marble",
    "nectar",
    "oyster",
    "parrot",
    "quartz",
    "river",
    "silver",
    "thunder",
    "velvet",
    "walnut",
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        number: its number in the round, from 0.
        kind: what it does.
        base: index of its base.
        name: name of its document.
        key: name of its key.
        seed: determines all further choices.
    """

    number: int
    kind: Kind
    base: int
    name: str
    key: str
    seed: str

    @property
    def random(self) -> random.Random:
        """A generator of the operation's choices, always with the same ones."""
        return random.Random(self.seed)

    def __str__(self) -> str:
        return f"{self.number} {self.kind} base {self.base} {self.name}"


def plan(seed: int, length: int, prefix: int | None = None) -> list[Operation]:
    """The operations of a round. One of them, past its first quarter, is a kill.

    Args:
        seed: determines them.
        length: number of operations.
        prefix: number of operations that are kept; None for all.
    """
    kill = random.Random(f"{seed}").randrange(length // 4, length)
    return [_operation(seed, number, number == kill) for number in range(length)][:prefix]


def _operation(seed: int, number: int, is_kill: bool) -> Operation:
    own = f"{seed}-{number}"
    choices = random.Random(f"{own}-kind")
    kind: Kind = choices.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    base = choices.randrange(BASES)
    name = f"document-{choices.randrange(NAMES)}"
    return Operation(number, "kill" if is_kill else kind, base, name, choices.choice(KEYS), own)


def line(choices: random.Random, beginning: str) -> str:
    """A line of 99 characters: random words behind a beginning that makes it unique."""
    found = beginning
    while len(found) < 99:
        found += " " + choices.choice(WORDS)
    return found[:98].rstrip().ljust(99, ".")
