"""Which embeddings to send to a cosine collection, so that those that are wanted come back.

Chroma (1.5.9) divides the embeddings of cosine collections by their length and multiplies them with it again when they
are read, in float32: `kept`. What comes back differs from what was sent in the last digits, and differs again after
each further copy. But a value that Chroma gave is one that it can give: some embedding nearby leads to it. `sendable`
finds it. Most embeddings of length 1 are such values too.

If another Chroma computes otherwise, what was sent is off by as little as what Chroma itself changes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragstore.model.vectors import Matrix

LENGTH_STEPS: Final = (0, *(step * sign for step in range(1, 13) for sign in (1, -1)))
"""How far the length of the embedding to send may be from that of the wanted one, in units of the last place."""

VALUE_STEPS: Final = range(-3, 4)
"""The same for each number, away from zero."""

ORDERS: Final = 64
"""In how many orders numbers are exchanged before an embedding counts as not reachable."""

PROBED: Final = 64
"""Numbers of each embedding that are looked at first; where one of them cannot be reached, nothing else is tried."""

_ONE: Final = np.float32(1)
_SMALL: Final = np.float32(1e-30)


def kept(embeddings: Matrix) -> Matrix:
    """What Chroma gives back of a cosine collection's embeddings.

    Args:
        embeddings: matrix of shape (n, dimension), float32.

    Returns:
        Matrix of the same shape.
    """
    return _kept(embeddings, _lengths(embeddings))


def sendable(wanted: Matrix) -> Matrix:
    """Embeddings to send, of which the wanted ones come back.

    Args:
        wanted: matrix of shape (n, dimension), float32, finite.

    Returns:
        Matrix of the same shape. A row that cannot be had is as it was.
    """
    with np.errstate(all="ignore"):
        chosen = np.array(wanted, dtype=np.float32)
        missing = np.flatnonzero((kept(chosen) != chosen).any(axis=1))
        for step in LENGTH_STEPS:
            rows = wanted[missing]
            found, embeddings = _with_length(rows, _stepped(_lengths(rows), step))
            chosen[missing[found]] = embeddings
            missing = np.delete(missing, found)
            if not len(missing):
                break
        return chosen


def _with_length(wanted: Matrix, lengths: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """Find embeddings of given lengths that lead to the wanted ones.

    Args:
        wanted: matrix of shape (n, dimension).
        lengths: matrix of shape (n, 1).

    Returns:
        The rows for which there is one, and the embeddings for them.
    """
    every = max(1, wanted.shape[1] // PROBED)
    rows = np.flatnonzero(_reachable(_bounds(np.ascontiguousarray(wanted[:, ::every]), lengths)))
    least, most = _bounds(wanted[rows], lengths[rows])
    # Replacing numbers by larger ones never makes the length smaller, so it must lie between the two.
    within = (_lengths(least) <= lengths[rows]) & (_lengths(most) >= lengths[rows])
    fitting = _reachable((least, most)) & within[:, 0]
    rows, least, most = rows[fitting], least[fitting], most[fitting]
    chosen = np.array(least)
    missing = np.arange(len(rows))
    shuffled = np.random.default_rng(0)
    for _ in range(ORDERS):
        if not len(missing):
            break
        order = shuffled.permutation(wanted.shape[1])
        mixed = _mixed(least[missing], most[missing], lengths[rows[missing]], order)
        exact = (_lengths(mixed) == lengths[rows[missing]])[:, 0]
        chosen[missing[exact]] = mixed[exact]
        missing = missing[~exact]
    found = np.delete(np.arange(len(rows)), missing)
    return rows[found], chosen[found]


def _mixed(least: Matrix, most: Matrix, lengths: Matrix, order: NDArray[np.intp]) -> Matrix:
    """The smaller numbers, with as many of the larger ones as bring the length to what it shall be, by bisection."""
    low = np.zeros((len(least), 1), dtype=np.intp)
    high = np.full((len(least), 1), least.shape[1], dtype=np.intp)
    while (low < high).any():
        middle = (low + high) // 2
        reached = _lengths(np.where(order < middle, most, least)) >= lengths
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return np.where(order < low, most, least)


def _bounds(wanted: Matrix, lengths: Matrix) -> tuple[Matrix, Matrix]:
    """For each number the ones next to it, smallest and largest in magnitude, that lead to it; NaN where none does."""
    least = np.full(wanted.shape, np.nan, dtype=np.float32)
    most = np.array(least)
    for step in VALUE_STEPS:
        candidate = np.where(wanted == 0, wanted, _stepped(wanted, step))
        leads = _kept(candidate, lengths) == wanted
        most = np.where(leads, candidate, most)
        least = np.where(leads & np.isnan(least), candidate, least)
    return least, most


def _reachable(bounds: tuple[Matrix, Matrix]) -> NDArray[np.bool_]:
    return np.asarray(~np.isnan(bounds[0]).any(axis=1))


def _lengths(embeddings: Matrix) -> Matrix:
    """Lengths, of shape (n, 1). Squares are added one after the other, as Chroma does: the order decides the end."""
    lengths: Matrix = np.sqrt(np.add.accumulate(embeddings * embeddings, axis=1)[:, -1:])
    return lengths


def _kept(embeddings: Matrix, lengths: Matrix) -> Matrix:
    read: Matrix = (embeddings * (_ONE / (lengths + _SMALL))) * lengths
    return read


def _stepped(values: Matrix, steps: int) -> Matrix:
    """Values moved by so many units of the last place, away from zero."""
    moved: Matrix = (np.ascontiguousarray(values).view(np.int32) + np.int32(steps)).view(np.float32)
    return moved
