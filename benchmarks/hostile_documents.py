"""Measure time and peak memory of the extraction of hostile documents, with the default limits, and print a table.

    .venv/bin/python -m benchmarks.hostile_documents [NAME ...]

A NAME is a part of the name of a document; without any, all are measured. Each has a new process, whose start is not
measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ragstore.kit.errors import ServiceError
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.settings import Settings
from tests.gateway.extraction import documents

MIB = 1024 * 1024
SAMPLE_SECONDS = 0.01


class Measured(NamedTuple):
    """A document to measure.

    Attributes:
        name: its file name.
        content: makes the document.
    """

    name: str
    content: Callable[[], bytes]


def file(name: str) -> Callable[[], bytes]:
    """A committed file of the tests."""
    return (documents.FILES / name).read_bytes


def declared_rows(xml: bytes) -> bytes:
    """A sheet that declares the maximum number of rows."""
    return xml.replace(b'ref="A1:D3"', b'ref="A1:XFD1048576"').replace(b'<row r="3"', b'<row r="1048576"')


DOCUMENTS = {
    "DOCX with 4 GiB of zeros": Measured(
        "a.docx", lambda: documents.zip_bomb(documents.word(), "word/media/image.bin", 4096 * MIB)
    ),
    "DOCX with 125 MiB of zeros": Measured(
        "a.docx", lambda: documents.zip_bomb(documents.word(), "word/document.xml", 125 * MIB)
    ),
    "DOCX with entities": Measured("a.docx", lambda: documents.with_entities(documents.word(), "word/document.xml")),
    "XLSX with entities": Measured(
        "a.xlsx", lambda: documents.with_entities(documents.excel(), "xl/worksheets/sheet1.xml")
    ),
    "PPTX with entities": Measured(
        "a.pptx", lambda: documents.with_entities(documents.powerpoint(), "ppt/slides/slide1.xml")
    ),
    "HTML with entities": Measured(
        "a.html", lambda: f"{documents.ENTITIES}<html><body><p>The kettle &a11; boils</p></body></html>".encode()
    ),
    "DOCX of 300,000 paragraphs": Measured("a.docx", documents.slow),
    "encrypted PDF": Measured("a.pdf", file("encrypted.pdf")),
    "encrypted DOCX": Measured("a.docx", file("encrypted.docx")),
    "PDF without text": Measured("a.pdf", file("scan.pdf")),
    "PDF of 10,000 pages": Measured(
        "a.pdf", lambda: documents.pdf([documents.shown(f"page {number}") for number in range(10_000)])
    ),
    "PDF with forms on nine levels": Measured("a.pdf", lambda: documents.pdf_forms(9)),
    "PDF with a page of 1 GiB": Measured("a.pdf", lambda: documents.pdf([" " * (1024 * MIB)])),
    "HTML with 1,000,000 nested elements": Measured("a.html", lambda: b"<html><body>" + b"<b>" * 1_000_000),
    "HTML with 1,000,000 paragraphs": Measured("a.html", lambda: b"<html><body>" + b"<p>kettle" * 1_000_000),
    "HTML with 20,000 links": Measured("a.html", lambda: b"<html><body>" + b"<p>kettle <a href=/x>more</a>" * 20_000),
    "CSV with a line of 37 MB": Measured("a.csv", lambda: b"kettle " * 5_242_880),
    "Markdown of 270,000 headings": Measured("a.md", lambda: b"# Kettle\n\nboils *water*\n\n- a\n- b\n\n" * 270_000),
    "zero bytes": Measured("a.txt", lambda: bytes(MIB)),
    "XLSX that declares 1,048,576 rows": Measured(
        "a.xlsx", lambda: documents.replaced(documents.excel(), {"xl/worksheets/sheet1.xml": declared_rows})
    ),
}


async def main() -> None:
    """Measure the documents, each in a new process, and extract a good one after each."""
    settings = Settings(extraction_concurrency=1)
    print(f"{'document':36} {'MB':>6} {'s':>6} {'MiB':>5}  outcome")
    for title, measured in DOCUMENTS.items():
        if len(sys.argv) > 1 and not any(part in title for part in sys.argv[1:]):
            continue
        content = measured.content()
        extractor = Extractor.from_settings(settings)
        async with extractor.running():
            extracting = asyncio.create_task(_outcome(extractor, measured.name, content))
            peak, started = 0, 0.0
            while not extracting.done():
                if extractor.workers and not started:
                    started = time.perf_counter()
                peak = max(peak, _peak_bytes(extractor))
                await asyncio.sleep(SAMPLE_SECONDS)
            seconds = time.perf_counter() - started if started else 0.0
            peak = max(peak, _peak_bytes(extractor))
            good = await _outcome(extractor, "", file("manual.pdf")())
        print(f"{title:36} {len(content) / 1e6:6.2f} {seconds:6.2f} {peak // MIB:5}  {await extracting}; next: {good}")


async def _outcome(extractor: Extractor, name: str, content: bytes) -> str:
    try:
        return f"{len((await extractor.extract(content, name=name)).text)} characters"
    except ServiceError as error:
        return error.code


def _peak_bytes(extractor: Extractor) -> int:
    """The peak of the memory of the extractor's process."""
    for worker in extractor.workers:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{worker.pid}/status").read_text()
            if "VmHWM:" in status:
                return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return 0


if __name__ == "__main__":
    asyncio.run(main())
