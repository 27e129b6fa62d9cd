"""Formats results for people and models."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ragstore_client._exceptions import InvalidConfiguration
from ragstore_client.rag._results import RetrievedPassage

SEPARATOR = "\n\n---\n\n"


class Texts(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of one language.

    Attributes:
        archive: label of an archive's name.
        layer: label of a layer.
        page: label of a page number.
        section: label of a section heading.
        no_archives: no archive could be reached.
        nothing_found: the search found nothing.
        search_failed: the query could not be embedded.
        context_heading: heading of results that are added to the conversation as context.
        archive_prompt: introduces the search tool to the model.
    """

    archive: str
    layer: str
    page: str
    section: str
    no_archives: str
    nothing_found: str
    search_failed: str
    context_heading: str
    archive_prompt: str


TEXTS: dict[str, Texts] = {
    "de": Texts(
        archive="Archiv",
        layer="Ebene",
        page="Seite",
        section="Abschnitt",
        no_archives="Keine Archive verfügbar.",
        nothing_found="Keine relevanten Dokumente gefunden.",
        search_failed="Archivsuche fehlgeschlagen",
        context_heading="Relevante Dokumente aus den Archiven:",
        archive_prompt=(
            'Du hast Zugriff auf Dokumentenarchive. Verwende das Tool "search_archives",\n'
            "wenn der Benutzer Fragen zu Dokumenten, Berichten, Richtlinien oder archivierten\n"
            "Informationen stellt. Formuliere die Suchanfrage so um, dass sie für eine\n"
            "semantische Suche geeignet ist."
        ),
    ),
    "en": Texts(
        archive="Archive",
        layer="Layer",
        page="Page",
        section="Section",
        no_archives="No archives available.",
        nothing_found="No relevant documents found.",
        search_failed="Archive search failed",
        context_heading="Relevant documents from the archives:",
        archive_prompt=(
            'You have access to document archives. Use the tool "search_archives"\n'
            "when the user has questions about documents, reports, policies or archived information.\n"
            "Rephrase the query so that it suits a semantic search."
        ),
    ),
}


def texts(language: str = "de") -> Texts:
    """The texts of a language.

    Args:
        language: `de` or `en`; add others to `TEXTS`.

    Returns:
        The texts.

    Raises:
        InvalidConfiguration: there are no texts for the language.
    """
    try:
        return TEXTS[language]
    except KeyError:
        raise InvalidConfiguration(f"no texts for language {language!r}; available: {', '.join(TEXTS)}") from None


def format_passages(passages: Iterable[RetrievedPassage], *, language: str = "de") -> str:
    """Format results for a model.

    Args:
        passages: the results, best first.
        language: language of the labels.

    Returns:
        Each result under a line with its number and source, separated by rules; the text for "nothing found" when
        there are no results.
    """
    labels = texts(language)
    blocks = [_block(number, passage, labels) for number, passage in enumerate(passages, 1)]
    return SEPARATOR.join(blocks) or labels.nothing_found


def format_context(passages: Iterable[RetrievedPassage], *, language: str = "de") -> str:
    """Format results that are added to the conversation as context.

    Args:
        passages: the results, best first.
        language: language of the labels.

    Returns:
        The results under a heading.
    """
    return f"{texts(language).context_heading}\n\n{format_passages(passages, language=language)}"


def append_archive_prompt(system_prompt: str | None, *, language: str = "de") -> str:
    """Append the introduction of the search tool to a system prompt.

    Args:
        system_prompt: the agent's own prompt; None or empty when it has none.
        language: language of the introduction.

    Returns:
        The prompt with the introduction at its end; unchanged when it contains the introduction already.
    """
    introduction = texts(language).archive_prompt
    if not system_prompt or not system_prompt.strip():
        return introduction
    return system_prompt if introduction in system_prompt else f"{system_prompt}\n\n{introduction}"


def _block(number: int, passage: RetrievedPassage, labels: Texts) -> str:
    facts = [
        f"{label}: {passage.metadata[key]}"
        for label, key in ((labels.layer, "layer"), (labels.page, "page_number"), (labels.section, "section_heading"))
        if passage.metadata.get(key)
    ]
    source = f" ({', '.join(facts)})" if facts else ""
    return f"[{number}] {labels.archive}: {passage.archive.name}{source}\n{passage.text}"
