"""`PromptPassage`: a numbered passage in the prompt of a chat."""

from __future__ import annotations

from ragstore_client.context import ContextPassage


class PromptPassage(ContextPassage, frozen=True, kw_only=True):
    """A passage in a prompt, with the names that the caller gets for it.

    Attributes:
        title: its document, and its page or heading.
        base_id: id of its knowledge base; empty for the response of an HTTP call.
        url: its web address, or else an address of the gateway that shows it; empty for the response of an HTTP call.
        is_response: whether it is the response of an HTTP call.
        is_further: whether a better passage of its source has its number, too.
    """

    title: str = ""
    base_id: str = ""
    url: str = ""
    is_response: bool = False
    is_further: bool = False
