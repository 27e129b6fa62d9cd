# Generated from _async/runs.py by scripts/generate_sync_client.py: do not edit.
"""Waits for the end of a run, and iterates over lists whose pages have numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ragstore_client._call import Call
from ragstore_client._options import CallOptions
from ragstore_client._sync.base import CallSender
from ragstore_client._sync.runtime import sleep
from ragstore_client.gateway._questions import QuestionRun
from ragstore_client.gateway._sources import SourceRun

T = TypeVar("T")
PageT = TypeVar("PageT")
RunT = TypeVar("RunT", SourceRun, QuestionRun)

RETRY_SECONDS = 60.0
POLL_SECONDS = (0.1, 0.2, 0.5, 1.0)
"""Waits between two requests for the state of a run. The last one repeats."""


def until_ended(sender: CallSender, call: Call[RunT], progress: Callable[[RunT], None] | None = None) -> RunT:
    """Wait until a run has ended.

    Args:
        sender: sends the call.
        call: reads the run.
        progress: is called with each state of the run.
    """
    polls = 0
    while True:
        run = sender._send(call)
        if progress is not None:
            progress(run)
        if run.has_ended:
            return run
        sleep(POLL_SECONDS[min(polls, len(POLL_SECONDS) - 1)])
        polls += 1


def iter_pages(
    sender: CallSender,
    call: Callable[[int], Call[PageT]],
    items: Callable[[PageT], Sequence[T]],
    page_size: int,
    options: CallOptions,
) -> Iterator[T]:
    """Iterate over a list.

    Args:
        sender: sends the calls.
        call: returns the call of a page, by its number from 0.
        items: returns the items of a page.
        page_size: number of items of a page that is not the last one.
        options: the options of each call.
    """
    index = 0
    while True:
        page = items(sender._send(call(index), options))
        yield from page
        if len(page) < page_size:
            return
        index += 1
