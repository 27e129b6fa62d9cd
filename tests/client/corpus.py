"""Documents for the client's tests, with canaries: words that no log may contain."""

from __future__ import annotations

from ragstore_client import NewDocument
from tests.client.fake_servers import vector_of

CANARY_TEXT = "kanarientext-4711"
CANARY_PREVIEW = "kanarienvorschau-4712"
CANARY_VALUE = "kanarienwert-4713"
CANARY_QUERY = "kanarienfrage-4714"
CANARY_KEY = "kanarienschluessel-4715"
CANARY_NUMBER = 0.77345612

CANARIES = (CANARY_TEXT, CANARY_PREVIEW, CANARY_VALUE, CANARY_QUERY, CANARY_KEY, str(CANARY_NUMBER))


def chunk(
    number: int,
    text: str,
    *,
    document: str = "doc-1",
    heading: str | None = None,
    start: int | None = None,
    layer: str = "chunk",
    dimension: int = 64,
    page: int | None = 1,
    **more: str | int,
) -> NewDocument:
    """A passage with the metadata that the platform writes."""
    start = number * 1000 if start is None else start
    metadata: dict[str, str | int | None] = {
        "document_id": document,
        "repository_id": "repository-1",
        "organization_id": CANARY_VALUE,
        "layer": layer,
        "char_start": start,
        "char_end": start + len(text),
        "token_count": len(text.split()),
        "text_preview": f"{CANARY_PREVIEW} {text[:150]}",
        "page_number": page,
        "section_heading": heading,
        "chunk_index": number,
        **more,
    }
    return NewDocument(
        id=f"{document}:{layer}:{number}", text=text, embedding=vector_of(text, dimension), metadata=metadata
    )


HANDBOOK = [
    chunk(0, f"Die Heizung wird jedes Jahr im Herbst gewartet. {CANARY_TEXT}", heading="Heizung", page=3),
    chunk(1, "Das Treppenhaus reinigt die Hausverwaltung jede Woche.", heading="Reinigung", page=4),
    chunk(2, "Die Miete ist am dritten Werktag des Monats fällig.", heading="Miete", page=5),
    chunk(3, "Der Aufzug hat einen Notruf, der immer besetzt ist.", heading="Aufzug", page=6),
    chunk(
        0,
        "Die Heizung wird jedes Jahr im Herbst gewartet. Das Treppenhaus reinigt die Hausverwaltung.",
        layer="page",
        page=3,
    ),
]
