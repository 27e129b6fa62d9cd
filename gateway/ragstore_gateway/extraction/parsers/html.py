"""HTML pages, by trafilatura."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from lxml import html
from trafilatura.baseline import html2txt
from trafilatura.core import bare_extraction, determine_returnstring
from trafilatura.settings import Document, Extractor

from ragstore_gateway.errors import NoText
from ragstore_gateway.extraction.decode_text import decode
from ragstore_gateway.extraction.extracted import Extracted, Heading
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from ragstore_gateway.extraction.parsers.threads import is_missed, thread_of
from ragstore_gateway.extraction.protocol import Output, Request
from ragstore_gateway.extraction.text_builder import MAX_TITLE_CHARACTERS, check_length, clean, one_line

_FORMS: Final[dict[Output, str]] = {"text": "txt", "markdown": "markdown", "html": "html"}
_LANGUAGE: Final = re.compile(r"([a-z]{2,3})(?:[-_]|\Z)")
_HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_BOILERPLATE: Final = ("aside", "footer", "form", "header", "nav")
"""Elements whose headings are not of the main text."""

_MAX_REPEATED: Final = 4_000_000
"""Characters of a page that is extracted a second time: a larger one could reach the limits of time and memory."""

_MIN_SHARE: Final = 0.9
"""Share of a text that another one of the same page must have to replace it: it has the headings besides."""

_XML_DECLARATION: Final = re.compile(r"\A\s*<\?xml[^>]*\?>")


def page(content: bytes, request: Request) -> Extracted:
    """Extract the main text of a page, without its navigation, header, footer and comments.

    Args:
        content: the page.
        request: its declared media type, its URL, the form of its text and the maximum number of characters of that.

    Returns:
        The text. The headings of `html` have no spans and are left out.

    Raises:
        NoText: the page has no text.
    """
    output, url = request.output, request.url
    source = _XML_DECLARATION.sub("", clean(decode(content, request.media_type)))
    check_length(len(source), 8 * request.max_characters)
    if not source.strip():
        raise NoText("The page has no text")
    # A document type definition is not needed, and entities of its own are not expanded.
    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
    tree = html.document_fromstring(source.encode("utf-8", "replace"), parser=parser)
    document, text = _main_text(tree, output, url)
    thread = thread_of(tree)
    if thread is not None and is_missed(text, thread):
        document, text = _main_text(thread, output, url)
    elif len(source) <= _MAX_REPEATED and _lacks_headings(tree, document):
        document, text = _with_headings(tree, output, url, document, text)
    if output != "html" and not text:
        text = clean(html2txt(tree)).strip()
    check_length(len(text), request.max_characters)
    return Extracted(
        text,
        MEDIA_TYPES["html"],
        title=one_line((document and document.title) or tree.findtext(".//title") or "")[:MAX_TITLE_CHARACTERS],
        language=_language(tree, document),
        published=(document and document.date) or "",
        headings=_headings(text, output, document),
    )


def _main_text(tree: html.HtmlElement, output: Output, url: str) -> tuple[Document | None, str]:
    """The main text of a page, and its metadata if there is one."""
    found = bare_extraction(
        tree,
        url=url or None,
        output_format=_FORMS[output],
        include_comments=False,
        with_metadata=True,
        date_extraction_params={
            "original_date": True,
            # A date that is guessed from the text is worse than none.
            "extensive_search": False,
            "max_date": datetime.now(UTC).strftime("%Y-%m-%d"),
        },
    )
    if not isinstance(found, Document):
        return None, ""
    # Without metadata, which the text would begin with.
    options = Extractor(output_format=_FORMS[output], comments=False)
    return found, clean(determine_returnstring(found, options)).strip()


def _lacks_headings(tree: html.HtmlElement, document: Document | None) -> bool:
    """Whether the main text has less than half of the page's headings.

    trafilatura 2.3 finds the main text in `main`, `article`, and containers that common programs name. Without them it
    may collect paragraphs only: a page of pandoc loses all headings.
    """
    needed = 2 * _count(document) + 1
    with_text = (heading for heading in tree.iter(*_HEADINGS) if heading.text_content().strip())
    own = (heading for heading in with_text if next(heading.iterancestors(*_BOILERPLATE), None) is None)
    return sum(1 for _ in islice(own, needed)) == needed


def _with_headings(
    tree: html.HtmlElement, output: Output, url: str, document: Document | None, text: str
) -> tuple[Document | None, str]:
    """The main text with the page's body as `main`, if it has the headings that the one so far lacks, and its text.

    Args:
        tree: the page, which is changed.
        output: the form of the text.
        url: the page's URL, if known.
        document: the main text so far.
        text: the same as text.
    """
    body = tree.find("body")
    if body is None:
        return document, text
    main = html.Element("main")
    main.text, body.text = body.text, None
    main.extend(list(body))
    body.append(main)
    again, found = _main_text(tree, output, url)
    is_better = _count(again) > 2 * _count(document) and len(found) >= _MIN_SHARE * len(text)
    return (again, found) if is_better else (document, text)


def _count(document: Document | None) -> int:
    """The number of headings of a main text."""
    return 0 if document is None or document.body is None else sum(1 for _ in document.body.iter("head"))


def _language(tree: html.HtmlElement, document: Document | None) -> str:
    """The language that the page declares: the language of `lang`, or of its metadata."""
    declared = (
        tree.get("lang"),
        tree.get("{http://www.w3.org/XML/1998/namespace}lang"),
        document and document.language,
    )
    for language in declared:
        if language and (found := _LANGUAGE.match(language.strip().lower())):
            return found[1]
    return ""


def _headings(text: str, output: Output, document: Document | None) -> tuple[Heading, ...]:
    """The headings of the text, where they can be found in it."""
    if output == "markdown":
        return markdown_headings(text)
    if output == "html" or document is None or document.body is None:
        return ()
    headings = []
    searched_from = 0
    for element in document.body.iter("head"):
        heading = one_line("".join(element.itertext()))
        found = re.compile(rf"^{re.escape(heading)}$", re.MULTILINE).search(text, searched_from) if heading else None
        if found:
            level = element.get("rend", "")[1:]
            headings.append(Heading(int(level) if level in tuple("123456") else 6, heading, found.start(), found.end()))
            searched_from = found.end()
    return tuple(headings)
