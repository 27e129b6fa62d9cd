"""Threads: the posts of a forum, and a question with its replies."""

from __future__ import annotations

import pytest

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.parsers.html import page
from ragstore_gateway.extraction.protocol import Output, Request

POSTS = (
    "My sourdough collapses in the oven since we moved to the mountains. The starter is active and doubles in four "
    "hours. What should I adjust first, the flour or the time of the second rise?",
    "At that height the gas expands more, so that the dough is overproofed although it looks right. Shorten the second "
    "rise by a third, and let the dough grow by half its volume only.",
    "Dry flour needs more water. I use two percent more than the recipe says, and weigh the dough before and after.",
)
MARKUPS = {
    "phpBB": '<div class="post"><div class="postprofile">Joined 2019</div><div class="content"><p>{}</p></div></div>',
    "XenForo": '<div class="message-body"><article><div class="bbWrapper"><p>{}</p></div></article></div>',
    "Discourse": '<div class="topic-body"><div class="names">jun</div><div class="cooked"><p>{}</p></div></div>',
    "vBulletin": '<li class="postbit"><blockquote class="postcontent restore">{}</blockquote></li>',
    "Stack Exchange": '<div class="answer"><i>3 votes</i><div class="s-prose js-post-body"><p>{}</p></div></div>',
    "plain": '<div class="post"><div class="author">jun</div><div class="body"><p>{}</p></div></div>',
}


def _extract(body: str, output: Output = "text") -> Extracted:
    document = f"<html lang='en'><head><title>Bread at altitude</title></head><body>{body}</body></html>"
    return page(document.encode(), Request("text/html", "", output, "", 1_000_000, 1.0))


def _thread(markup: str) -> str:
    posts = "".join(markup.format(post) for post in POSTS)
    return f"<div id='nav'><a href='/'>Forum home</a></div><div><h1>Bread at altitude</h1>{posts}</div>"


@pytest.mark.parametrize("markup", MARKUPS.values(), ids=MARKUPS.keys())
def test_all_posts_of_a_thread_are_in_its_text_in_order(markup: str) -> None:
    extracted = _extract(_thread(markup))
    starts = [extracted.text.find(post) for post in POSTS]
    assert -1 not in starts
    assert starts == sorted(starts)
    assert "Forum home" not in extracted.text
    assert (extracted.title, extracted.language) == ("Bread at altitude", "en")


@pytest.mark.parametrize("output", ["markdown", "html"])
def test_all_posts_are_in_markdown_and_html_too(output: Output) -> None:
    text = _extract(_thread(MARKUPS["plain"]), output).text
    assert all(post in text for post in POSTS)


def test_comments_below_an_article_are_no_thread() -> None:
    article = "<article><h1>Bread</h1>" + "".join(f"<p>{post} And more about bread.</p>" for post in POSTS * 2)
    comments = "".join(f'<div class="post"><div class="body">Comment: {post}</div></div>' for post in POSTS * 4)
    text = _extract(f'{article}</article><section id="comments">{comments}</section>').text
    assert "And more about bread" in text
    assert "Comment:" not in text


def test_a_text_that_has_most_of_the_posts_is_kept() -> None:
    posts = "".join(f'<p>{post}</p><div class="post"><div class="body">{post[:60]}</div></div>' for post in POSTS)
    assert all(post in _extract(f"<article><h1>Bread</h1>{posts}</article>").text for post in POSTS)


def test_posts_within_posts_are_no_thread() -> None:
    assert "Tea" in _extract("<div class='post'>" * 100 + "<p>Tea is a drink.</p>").text
