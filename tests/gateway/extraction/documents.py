"""Documents of each format, made by the libraries that write them, and hostile ones."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path

FILES = Path(__file__).parent / "files"

ENTITIES = "<!DOCTYPE bomb [<!ENTITY a0 'kettle'>{}]>".format(
    "".join(f"<!ENTITY a{level} '{f'&a{level - 1};' * 10}'>" for level in range(1, 12))
)
"""A document type definition with an entity of 600 billion characters: billion laughs."""

PAGE = """\
<!DOCTYPE html>
<html lang="de-AT"><head><title>Der Kessel</title>
<meta charset="utf-8"><meta property="article:published_time" content="2026-03-04T10:00:00Z"></head>
<body><nav><a href="/">Startseite</a> <a href="/x">Alle Angebote</a></nav><main><article><h1>Der Kessel</h1>
<p>Der Kessel kocht einen Liter Wasser in drei Minuten, und das ist schnell für so einen kleinen Kessel.</p>
<h2>Garantie</h2><p>Die Garantie des Kessels dauert drei Jahre. Kalk ist ausgeschlossen.</p>
<table><tr><th>Teil</th><th>Jahre</th></tr><tr><td>Griff</td><td>5</td></tr></table>
<h2>Reinigung</h2><p>Reinigen Sie den Kessel jeden Monat mit <b>Essig</b>.</p></article></main>
<footer>Impressum</footer></body></html>
"""


def saved(document: object) -> bytes:
    """The file of a document of one of the office libraries."""
    buffer = io.BytesIO()
    document.save(buffer)  # type: ignore[attr-defined]  # each library has its own class
    return buffer.getvalue()


def word() -> bytes:
    """A DOCX file with headings, a table, and a merged cell."""
    import docx

    document = docx.Document()
    document.core_properties.title = "Manual of the kettle"
    document.add_heading("The kettle", 1)
    document.add_paragraph("The kettle boils one litre of water.")
    document.add_heading("Warranty", 2)
    table = document.add_table(2, 3)
    for index, text in enumerate(("Part", "Years", "Note", "Handle", "5", "")):
        table.cell(index // 3, index % 3).text = text
    table.cell(1, 1).merge(table.cell(1, 2))
    document.add_paragraph("Limescale is excluded.")
    return saved(document)


def excel() -> bytes:
    """An XLSX file with two sheets, an empty one and a hidden one."""
    import openpyxl

    workbook = openpyxl.Workbook()
    parts = workbook.active
    parts.title = "Parts"
    parts.append(["part", "price", "since", "in stock"])
    parts.append(["kettle", 4.5, date(2026, 1, 2), 12.0])
    parts.append(["lid\nof glass", 7, datetime(2026, 1, 2, 3, 4, 5), None])
    workbook.create_sheet("Empty")
    workbook.create_sheet("Offices").append(["Vienna", True])
    hidden = workbook.create_sheet("Hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    return saved(workbook)


def powerpoint() -> bytes:
    """A PPTX file with titles, text, a table, and notes."""
    import pptx
    from pptx.util import Inches

    presentation = pptx.Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "The kettle"
    first.placeholders[1].text = "It boils one litre of water."
    first.notes_slide.notes_text_frame.text = "Show the kettle."
    second = presentation.slides.add_slide(presentation.slide_layouts[5])
    second.shapes.title.text = "Warranty"
    frame = second.shapes.add_table(1, 2, Inches(1), Inches(2), Inches(4), Inches(1))
    frame.table.cell(0, 0).text = "Handle"
    frame.table.cell(0, 1).text = "5 years"
    return saved(presentation)


def replaced(package: bytes, parts: Mapping[str, Callable[[bytes], bytes]]) -> bytes:
    """An office file with changed parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, parts.get(name, bytes)(old.read(name)))
    return buffer.getvalue()


def with_entities(package: bytes, part: str) -> bytes:
    """An office file with billion laughs in a part, where its first text was."""

    def change(xml: bytes) -> bytes:
        declaration, end, rest = xml.rpartition(b"?>")
        return declaration + end + ENTITIES.encode() + rest.replace(b"kettle", b"&a11;", 1)

    return replaced(package, {part: change})


def zip_bomb(package: bytes, part: str, size: int) -> bytes:
    """An office file with a part that has many zero bytes, compressed 200 to 1."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(package)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name))
        with new.open(part, "w", force_zip64=True) as bomb:
            zeros = bytes(1024 * 1024)
            for _ in range(size // len(zeros)):
                bomb.write(zeros)
    return buffer.getvalue()


def pdf(pages: Sequence[str], resources: str = "", objects: Mapping[int, bytes] | None = None) -> bytes:
    """A PDF file.

    Args:
        pages: the content stream of each page.
        resources: further resources of each page, such as `/XObject << /F 7 0 R >>`.
        objects: further objects by their numbers, which begin at 4.
    """
    further = dict(objects or {})
    first = max((*further, 3)) + 1
    kids = " ".join(f"{first + 2 * index} 0 R" for index in range(len(pages)))
    bodies = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        **further,
    }
    for index, content in enumerate(pages):
        number = first + 2 * index
        bodies[number] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {number + 1} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> {resources} >> >>"
        ).encode()
        bodies[number + 1] = stream(content.encode())
    buffer = io.BytesIO(b"")
    buffer.write(b"%PDF-1.7\n")
    offsets = {}
    for number, body in sorted(bodies.items()):
        offsets[number] = buffer.tell()
        buffer.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = buffer.tell()
    buffer.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1))
    for _, offset in sorted(offsets.items()):
        buffer.write(b"%010d 00000 n \n" % offset)
    buffer.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(bodies) + 1, start))
    return buffer.getvalue()


def stream(content: bytes, dictionary: str = "") -> bytes:
    """A compressed stream object of a PDF file."""
    packed = zlib.compress(content, 1)
    head = f"<< /Length {len(packed)} /Filter /FlateDecode {dictionary} >>\nstream\n"
    return head.encode() + packed + b"\nendstream"


def shown(text: str) -> str:
    """The content stream of a page that shows a text."""
    return f"BT /F1 12 Tf 20 700 Td ({text}) Tj ET"


def pdf_forms(levels: int, uses: int = 10) -> bytes:
    """A PDF file with a form that uses another one ten times, and so on: billion laughs of PDF."""
    forms = {}
    for level in range(levels):
        content = shown("kettle") if level == 0 else "/F Do " * uses
        inner = "/Font << /F1 3 0 R >>" if level == 0 else f"/XObject << /F {3 + level} 0 R >>"
        dictionary = f"/Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << {inner} >>"
        forms[4 + level] = stream(content.encode(), dictionary)
    return pdf(["/F Do"], f"/XObject << /F {3 + levels} 0 R >>", forms)


def slow() -> bytes:
    """A DOCX file of 300,000 paragraphs, whose extraction takes 20 s."""
    paragraphs = b"<w:p><w:r><w:t>kettle</w:t></w:r></w:p>" * 300_000

    def change(xml: bytes) -> bytes:
        return xml.replace(b"<w:sectPr", paragraphs + b"<w:sectPr", 1)

    return replaced(word(), {"word/document.xml": change})
