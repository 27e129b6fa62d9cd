"""The texts for people and models, exactly as specified."""

from __future__ import annotations

import pytest

from ragstore_client import (
    TEXTS,
    InvalidConfiguration,
    RagArchiveConfig,
    RetrievedPassage,
    append_archive_prompt,
    format_context,
    format_passages,
)
from ragstore_client._models import StoredMetadata

PROMPT = """Du hast Zugriff auf Dokumentenarchive. Verwende das Tool "search_archives",
wenn der Benutzer Fragen zu Dokumenten, Berichten, Richtlinien oder archivierten
Informationen stellt. Formuliere die Suchanfrage so um, dass sie für eine
semantische Suche geeignet ist."""


def passage(text: str, **metadata: str | int) -> RetrievedPassage:
    stored: StoredMetadata = dict(metadata)
    archive = RagArchiveConfig(name="Wartungsdokumentation", collection_name="repo_x")
    return RetrievedPassage(archive=archive, id=text, text=text, metadata=stored, distance=0.1)


def test_a_passage_is_formatted_with_archive_layer_page_and_section() -> None:
    assert (
        format_passages([passage("Heizung prüfen.", layer="chunk", page_number=3, section_heading="Heizung")])
        == "[1] Archiv: Wartungsdokumentation (Ebene: chunk, Seite: 3, Abschnitt: Heizung)\nHeizung prüfen."
    )


def test_missing_metadata_is_omitted() -> None:
    assert format_passages([passage("a", layer="chunk")]) == "[1] Archiv: Wartungsdokumentation (Ebene: chunk)\na"
    assert format_passages([passage("a")]) == "[1] Archiv: Wartungsdokumentation\na"


def test_passages_are_numbered_and_separated_by_rules() -> None:
    assert (
        format_passages([passage("a"), passage("b", page_number=2)])
        == "[1] Archiv: Wartungsdokumentation\na\n\n---\n\n[2] Archiv: Wartungsdokumentation (Seite: 2)\nb"
    )


def test_an_empty_result_has_a_text() -> None:
    assert format_passages([]) == "Keine relevanten Dokumente gefunden."


def test_context_has_a_heading() -> None:
    assert (
        format_context([passage("a")])
        == "Relevante Dokumente aus den Archiven:\n\n[1] Archiv: Wartungsdokumentation\na"
    )


def test_failures_have_the_texts_of_the_specification() -> None:
    assert TEXTS["de"].no_archives == "Keine Archive verfügbar."
    assert TEXTS["de"].search_failed == "Archivsuche fehlgeschlagen"


def test_the_prompt_is_appended_once() -> None:
    once = append_archive_prompt("Du bist ein hilfreicher Assistent für Immobiliendokumente.")
    assert once == f"Du bist ein hilfreicher Assistent für Immobiliendokumente.\n\n{PROMPT}"
    assert append_archive_prompt(once) == once


@pytest.mark.parametrize("prompt", [None, "", " \n"])
def test_without_a_prompt_the_introduction_is_the_prompt(prompt: str | None) -> None:
    assert append_archive_prompt(prompt) == PROMPT


def test_other_languages_come_from_the_table() -> None:
    assert (
        format_passages([passage("a", page_number=2)], language="en")
        == "[1] Archive: Wartungsdokumentation (Page: 2)\na"
    )
    assert "search_archives" in append_archive_prompt("", language="en")
    with pytest.raises(InvalidConfiguration, match="'fr'"):
        format_passages([], language="fr")
