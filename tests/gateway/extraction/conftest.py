"""An extractor for all tests of extraction, with small limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ragstore_gateway.extraction.extractor import ExtractionLimits, Extractor
from tests.support.process_fixtures import starts_process

MEMORY_BYTES = 256 * 1024 * 1024

LIMITS = ExtractionLimits(
    timeout_seconds=60,
    memory_bytes=MEMORY_BYTES,
    concurrency=2,
    max_document_bytes=8 * 1024 * 1024,
    max_characters=1_000_000,
)


@asynccontextmanager
async def running(limits: ExtractionLimits) -> AsyncIterator[Extractor]:
    """A running extractor with other limits."""
    extractor = Extractor(limits)
    async with extractor.running():
        yield extractor


@pytest.fixture(scope="package")
@starts_process
async def extractor() -> AsyncIterator[Extractor]:
    """A running extractor."""
    async with running(LIMITS) as started:
        yield started
