"""Full collections are paused while any request has many objects."""

from __future__ import annotations

import gc

import pytest

from ragstore.model.large_bodies.full_collections import FULL_COLLECTIONS, NEVER


def test_full_collections_are_paused_until_the_last_block_ends() -> None:
    before = gc.get_threshold()
    with FULL_COLLECTIONS.paused():
        with FULL_COLLECTIONS.paused():
            assert gc.get_threshold() == (*before[:2], NEVER)
        assert gc.get_threshold() == (*before[:2], NEVER)
    assert gc.get_threshold() == before


def test_full_collections_continue_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(LookupError), FULL_COLLECTIONS.paused():
        raise LookupError
    assert gc.get_threshold() == before
