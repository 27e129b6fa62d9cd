"""Formats results for people and models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ragstore_client._exceptions import InvalidConfiguration
from ragstore_client.rag._results import RetrievedPassage, SearchResults, SkipReason

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
        nothing_found_so_far: the search found nothing, and did not reach all archives.
        query_missing: a tool call has no query.
        not_searched: introduces the archives that were not searched.
        reasons: why an archive was not searched, in a word or two.
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
    nothing_found_so_far: str = "No relevant documents found in the archives that could be searched."
    query_missing: str = "The argument query is missing. Call the tool again with what to search for."
    not_searched: str = "Not searched"
    reasons: Mapping[SkipReason, str] = {}


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
        nothing_found_so_far="Keine relevanten Dokumente in den Archiven gefunden, die durchsucht werden konnten.",
        query_missing="Das Argument query fehlt. Rufe das Tool mit dem auf, wonach gesucht werden soll.",
        not_searched="Nicht durchsucht",
        reasons={
            SkipReason.UNREACHABLE: "nicht erreichbar",
            SkipReason.TOO_SLOW: "zu langsam",
            SkipReason.NOT_FOUND: "nicht vorhanden",
            SkipReason.DIMENSION: "anderes Embedding-Modell",
            SkipReason.FORBIDDEN: "Zugriff verweigert",
            SkipReason.NOT_EMBEDDED: "Anfrage nicht eingebettet",
            SkipReason.MISCONFIGURED: "falsch konfiguriert",
            SkipReason.FAILED: "Suche fehlgeschlagen",
        },
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
        reasons={
            SkipReason.UNREACHABLE: "unreachable",
            SkipReason.TOO_SLOW: "too slow",
            SkipReason.NOT_FOUND: "does not exist",
            SkipReason.DIMENSION: "other embedding model",
            SkipReason.FORBIDDEN: "access refused",
            SkipReason.NOT_EMBEDDED: "query not embedded",
            SkipReason.MISCONFIGURED: "misconfigured",
            SkipReason.FAILED: "search failed",
        },
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


def format_results(results: SearchResults, *, language: str = "de") -> str:
    """Format the results of a search for a model, with the archives that could not be searched, and why.

    Args:
        language: language of the labels.

    Returns:
        The passages, as `format_passages`; a text that nothing was found, if all archives were searched; or a text that
        says how far that can be said.
    """
    labels = texts(language)
    if results.passages:
        found = format_passages(results, language=language)
    elif results.searched == 0:
        found = labels.no_archives if results.unavailable else labels.search_failed
    else:
        found = labels.nothing_found_so_far if results.skipped else labels.nothing_found
    if not results.skipped:
        return found
    named = ", ".join(
        f"{skipped.archive.name} ({labels.reasons.get(skipped.reason, str(skipped.reason))})"
        for skipped in results.skipped
    )
    return f"{found}\n\n{labels.not_searched}: {named}."


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
