"""Threads: pages with several texts of equal rank, such as the posts of a forum, or a question and its replies.

trafilatura 2.3 takes the main text to be one element, and returns the first post of most threads.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Final

from lxml import html

MIN_POSTS: Final = 2
MIN_POST_CHARACTERS: Final = 40

MISSED: Final = 1.5
"""A thread replaces a text that is shorter than its posts by this factor."""

_BODIES: Final = frozenset(
    {
        "bbwrapper",
        "cooked",
        "js-post-body",
        "message-body",
        "message-content",
        "messagebody",
        "messagetext",
        "post-body",
        "post-content",
        "post-message",
        "post-text",
        "post_body",
        "post_message",
        "postbody",
        "postcontent",
        "posttext",
    }
)
"""Classes of the texts of posts, as common programs for forums name them."""

_POSTS: Final = frozenset({"answer", "message", "post", "question", "reply"})
"""Classes of posts, whose texts are elements with one of `_PARTS`."""

_PARTS: Final = frozenset({"body", "content", "message", "text"})
_OTHER: Final = re.compile(r"comment|related|recommend|sidebar|footer|teaser|widget|\bnav|signature", re.IGNORECASE)


def thread_of(tree: html.HtmlElement) -> html.HtmlElement | None:
    """The posts of a thread as a page of their own.

    Args:
        tree: the page. It is not changed.

    Returns:
        A page with the title, the first heading, and the posts in order; None if the page is no thread.
    """
    posts = [post for post in _outermost(tree) if _length(post) >= MIN_POST_CHARACTERS]
    if len(posts) < MIN_POSTS:
        return None
    page = html.Element("html", lang=tree.get("lang", ""))
    page.extend(copy.deepcopy(head) for head in tree.findall("head"))
    article = html.Element("article")
    heading = next(tree.iter("h1"), None)
    article.extend(copy.deepcopy(part) for part in ([] if heading is None else [heading]) + posts)
    for part in article:
        part.tail = None
    body = html.Element("body")
    body.append(article)
    page.append(body)
    return page


def is_missed(text: str, thread: html.HtmlElement) -> bool:
    """Whether a text lacks a large part of a thread.

    Args:
        text: the text that was extracted from the page.
    """
    return _length(thread.find("body")) > MISSED * len(text)


def _outermost(tree: html.HtmlElement) -> Iterator[html.HtmlElement]:
    """The texts of posts that are not within another one."""
    pending: list[tuple[html.HtmlElement, bool]] = [(tree, False)]
    while pending:
        element, in_post = pending.pop()
        if not isinstance(element.tag, str) or _OTHER.search(f"{element.get('class', '')} {element.get('id', '')}"):
            continue
        classes = set(element.get("class", "").lower().split())
        if classes & _BODIES or (in_post and classes & _PARTS):
            yield element
            continue
        in_post = in_post or bool(classes & _POSTS)
        pending += [(child, in_post) for child in reversed(element)]


def _length(element: html.HtmlElement) -> int:
    return len(" ".join("".join(element.itertext()).split()))
