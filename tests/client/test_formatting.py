"""What people and models get to read: the source's words, to the letter."""

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


def hit(text: str, **metadata: str | int) -> RetrievedPassage:
    stored: StoredMetadata = dict(metadata)
    archive = RagArchiveConfig(name="Wartungsdokumentation", collection_name="repo_x")
    return RetrievedPassage(archive=archive, id=text, text=text, metadata=stored, distance=0.1)


def test_a_hit_stands_under_its_archive_layer_page_and_section() -> None:
    assert (
        format_passages([hit("Heizung prüfen.", layer="chunk", page_number=3, section_heading="Heizung")])
        == "[1] Archiv: Wartungsdokumentation (Ebene: chunk, Seite: 3, Abschnitt: Heizung)\nHeizung prüfen."
    )


def test_what_the_metadata_does_not_tell_is_left_out() -> None:
    assert format_passages([hit("a", layer="chunk")]) == "[1] Archiv: Wartungsdokumentation (Ebene: chunk)\na"
    assert format_passages([hit("a")]) == "[1] Archiv: Wartungsdokumentation\na"


def test_hits_are_numbered_and_ruled_off() -> None:
    assert (
        format_passages([hit("a"), hit("b", page_number=2)])
        == "[1] Archiv: Wartungsdokumentation\na\n\n---\n\n[2] Archiv: Wartungsdokumentation (Seite: 2)\nb"
    )


def test_no_hits_are_said_to_be_none() -> None:
    assert format_passages([]) == "Keine relevanten Dokumente gefunden."


def test_context_has_a_heading() -> None:
    assert format_context([hit("a")]) == "Relevante Dokumente aus den Archiven:\n\n[1] Archiv: Wartungsdokumentation\na"


def test_failures_have_the_sources_words() -> None:
    assert TEXTS["de"].no_archives == "Keine Archive verfügbar."
    assert TEXTS["de"].search_failed == "Archivsuche fehlgeschlagen"


def test_the_prompt_is_appended_once() -> None:
    once = append_archive_prompt("Du bist ein hilfreicher Assistent für Immobiliendokumente.")
    assert once == f"Du bist ein hilfreicher Assistent für Immobiliendokumente.\n\n{PROMPT}"
    assert append_archive_prompt(once) == once


@pytest.mark.parametrize("prompt", [None, "", " \n"])
def test_without_a_prompt_the_addition_is_all(prompt: str | None) -> None:
    assert append_archive_prompt(prompt) == PROMPT


def test_other_languages_come_from_the_table() -> None:
    assert (
        format_passages([hit("a", page_number=2)], language="en") == "[1] Archive: Wartungsdokumentation (Page: 2)\na"
    )
    assert "search_archives" in append_archive_prompt("", language="en")
    with pytest.raises(InvalidConfiguration, match="'fr'"):
        format_passages([], language="fr")
