"""Examples of the OpenAPI document. They work in this order; a test sends them."""

from __future__ import annotations

from typing import Final

from ragstore.kit.openapi import JsonSchema

COLLECTION: Final = "handbook"
DOCUMENT: Final = "handbook:chunk:7"

BODIES: Final[dict[str, JsonSchema]] = {
    "createCollection": {
        "name": COLLECTION,
        "metadata": {"language": "en"},
        "embedding_model": "all-MiniLM-L6-v2",
        "get_or_create": True,
    },
    "updateCollectionMetadata": {"metadata": {"language": "en", "edition": 2}},
    "upsertDocuments": {
        "documents": [
            {
                "id": DOCUMENT,
                "text": "The boiler is serviced every October.",
                "embedding": [0.1, 0.2, 0.3],
                "metadata": {"layer": "chunk", "section_id": "heating", "page_number": 3},
            }
        ]
    },
    "addDocuments": {
        "documents": [
            {
                "text": "Keys are handed over against a receipt.",
                "embedding": [0.3, 0.2, 0.1],
                "metadata": {"layer": "chunk", "section_id": "keys", "page_number": 4},
            }
        ]
    },
    "updateDocuments": {
        "documents": [{"id": DOCUMENT, "metadata": {"page_number": 4, "section_id": None}}],
        "mode": "merge",
    },
    "filterDocuments": {"where": {"section_id": {"$in": ["heating", "keys"]}}, "limit": 50},
    "queryCollection": {"query_embedding": [0.1, 0.2, 0.3], "top_k": 3, "where": {"layer": "chunk"}},
    "mapCollection": {"points": 500, "where": {"layer": "chunk"}, "color": "section_id"},
    "query": {"collections": [COLLECTION], "query_embedding": [0.1, 0.2, 0.3], "top_k": 3},
    "deleteDocumentsByBody": {"where": {"section_id": "keys"}},
}
"""Request bodies by operation."""

LINES: Final[dict[str, list[JsonSchema]]] = {
    "streamDocuments": [
        {
            "text": "Windows are to be closed when it rains.",
            "embedding": [0.2, 0.1, 0.3],
            "metadata": {"layer": "chunk", "section_id": "windows", "page_number": 5},
        },
        {"text": "Bicycles belong in the yard.", "embedding": [0.3, 0.1, 0.2]},
    ]
}
"""Lines of streams by operation."""

PARAMETERS: Final[dict[str, object]] = {
    "collection_name": COLLECTION,
    "document_id": DOCUMENT,
    "field": "section_id",
}
"""Required parameters by name. The collection and the document exist after the bodies above are sent."""
