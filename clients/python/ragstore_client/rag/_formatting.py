"""What people and models get to read. Formatting knows results; results know nothing of formatting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ragstore_client._exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from ragstore_client.rag._results import RetrievedPassage

SEPARATOR = "\n\n---\n\n"


class Texts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is said in one language.

    Attributes:
        archive: label of an archive's name.
        layer: label of a layer.
        page: label of a page number.
        section: label of a section heading.
        no_archives: no archive could be reached.
        nothing_found: the search found nothing.
        search_failed: the query could not be embedded.
        context_heading: introduces results that are put before the model unasked.
        archive_prompt: tells the model of the search tool.
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
            "when the user asks about documents, reports, policies or archived information.\n"
            "Rephrase the query so that it suits a semantic search."
        ),
    ),
}


def texts(language: str = "de") -> Texts:
    """The texts of a language.

    Args:
        language: `de` or `en`; add others to `TEXTS`.

    Returns:
        Its texts.

    Raises:
        InvalidConfiguration: there are none for it.
    """
    try:
        return TEXTS[language]
    except KeyError:
        raise InvalidConfiguration(f"no texts for language {language!r}; there are {', '.join(TEXTS)}") from None


def format_passages(hits: Iterable[RetrievedPassage], *, language: str = "de") -> str:
    """Write results for a model to read.

    Args:
        hits: the results, best first.
        language: of the labels.

    Returns:
        Each result under a line that numbers it and tells its source, with rules in between; the words for "nothing
        found" when there is none.
    """
    words = texts(language)
    return SEPARATOR.join(_block(number, hit, words) for number, hit in enumerate(hits, 1)) or words.nothing_found


def format_context(hits: Iterable[RetrievedPassage], *, language: str = "de") -> str:
    """Write results that are put before the model unasked.

    Args:
        hits: the results, best first.
        language: of the labels.

    Returns:
        The results under a heading.
    """
    return f"{texts(language).context_heading}\n\n{format_passages(hits, language=language)}"


def append_archive_prompt(system_prompt: str | None, *, language: str = "de") -> str:
    """Tell a model of the search tool.

    Args:
        system_prompt: the agent's own prompt; None or empty when it has none.
        language: of the addition.

    Returns:
        The prompt with the addition at its end, once however often this is called.
    """
    addition = texts(language).archive_prompt
    if not system_prompt or not system_prompt.strip():
        return addition
    return system_prompt if addition in system_prompt else f"{system_prompt}\n\n{addition}"


def _block(number: int, hit: RetrievedPassage, words: Texts) -> str:
    facts = [
        f"{label}: {hit.metadata[key]}"
        for label, key in ((words.layer, "layer"), (words.page, "page_number"), (words.section, "section_heading"))
        if hit.metadata.get(key)
    ]
    source = f" ({', '.join(facts)})" if facts else ""
    return f"[{number}] {words.archive}: {hit.archive.name}{source}\n{hit.text}"
