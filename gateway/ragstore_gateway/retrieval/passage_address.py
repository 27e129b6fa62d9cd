"""The address of the gateway that shows a passage: the link of a citation whose document has no address of its own."""

from __future__ import annotations

from urllib.parse import quote


def passage_path(base_id: str, passage_id: str) -> str:
    """The path of the route `readPassage`.

    Args:
        base_id: id of the knowledge base.
        passage_id: id of the passage in it.
    """
    return f"/ragstore/rags/{quote(base_id, safe='')}/passages/{quote(passage_id, safe='')}"
