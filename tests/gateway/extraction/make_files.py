"""Writes the files of `files`, with programs that are not in the development environment.

pip install fpdf2==2.8.9 pypdf[crypto]==7.1.0 msoffcrypto-tool==6.1.0 python-docx
python tests/gateway/extraction/make_files.py
"""

from __future__ import annotations

import io
from pathlib import Path

import docx
import fpdf
import msoffcrypto.format.ooxml
import pypdf

FILES = Path(__file__).parent / "files"
PAGES = (
    "The kettle\nThe kettle boils one litre of water in three minutes.",
    "Warranty\nThe warranty of the kettle lasts three years. It excludes limescale.",
    "Cleaning\nClean the kettle with vinegar every month. \u00c4pfel, caf\u00e9.",
)
PASSWORD = "teapot"


def manual() -> bytes:
    """A PDF file of three pages with compressed streams, and with a title."""
    pdf = fpdf.FPDF()
    pdf.set_title("Manual of the kettle")
    pdf.set_lang("en")
    for text in PAGES:
        pdf.add_page()
        pdf.set_font("Helvetica", size=14)
        pdf.multi_cell(0, 8, text)
    return bytes(pdf.output())


def scan() -> bytes:
    """A PDF file whose page has only a drawing."""
    pdf = fpdf.FPDF()
    pdf.add_page()
    pdf.rect(20, 20, 100, 100, style="F")
    return bytes(pdf.output())


def encrypted_pdf(content: bytes, user_password: str) -> bytes:
    """A PDF file that is encrypted with AES-256; anybody can read it if the user's password is empty."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(content))
    writer.encrypt(user_password, owner_password=f"{PASSWORD}-owner", algorithm="AES-256")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def encrypted_docx() -> bytes:
    """A DOCX file that is encrypted as Word does it."""
    document = docx.Document()
    document.add_paragraph("The warranty of the kettle lasts three years.")
    plain, buffer = io.BytesIO(), io.BytesIO()
    document.save(plain)
    plain.seek(0)
    msoffcrypto.format.ooxml.OOXMLFile(plain).encrypt(PASSWORD, buffer)
    return buffer.getvalue()


def main() -> None:
    """Write the files."""
    FILES.mkdir(exist_ok=True)
    (FILES / "manual.pdf").write_bytes(manual())
    (FILES / "scan.pdf").write_bytes(scan())
    (FILES / "encrypted.pdf").write_bytes(encrypted_pdf(manual(), PASSWORD))
    (FILES / "restricted.pdf").write_bytes(encrypted_pdf(manual(), ""))
    (FILES / "encrypted.docx").write_bytes(encrypted_docx())


if __name__ == "__main__":
    main()
