"""An extractor for all tests of extraction, with small limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ragstore_gateway.extraction.extractor import ExtractionLimits, Extractor

MEMORY_BYTES = 256 * 1024 * 1024

LIMITS = ExtractionLimits(
    timeout_seconds=60,
    memory_bytes=MEMORY_BYTES,
    concurrency=2,
    max_document_bytes=8 * 1024 * 1024,
    max_characters=1_000_000,
)


@pytest.fixture(scope="session")
async def extractor() -> AsyncIterator[Extractor]:
    """A running extractor."""
    async with Extractor(LIMITS).running() as running:
        yield running
