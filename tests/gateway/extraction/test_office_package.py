"""The check of office files finds document type definitions wherever and however they are written."""

from __future__ import annotations

import io
import zipfile

import pytest

from ragstore_gateway.errors import ExtractionFailed
from ragstore_gateway.extraction.office_package import MAX_PROLOG_BYTES, check_package
from tests.gateway.extraction import documents
from tests.gateway.extraction.test_hostile import MIB, with_definition

SHEET = "xl/worksheets/sheet1.xml"
DEFINITION = "document type definition"
SVG = b'<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x"><svg/>'
SVG_WITH_ENTITY = b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY ns "http://a.test/">]><svg/>'


def sheet(before: str = "", charset: str = "utf-8") -> bytes:
    """A workbook, one sheet of which has a definition."""
    return documents.replaced(documents.excel(), {SHEET: lambda xml: with_definition(xml, before, charset)})


def with_part(name: str, content: bytes) -> bytes:
    """A workbook with a further part."""
    buffer = io.BytesIO(documents.excel())
    with zipfile.ZipFile(buffer, "a") as package:
        package.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "before",
    ["", f"<!-- {'c' * 70_000} -->", f"<?p {'c' * 70_000}?>", " \n" * 70_000, "<!-- <!DOCTYPE none> -->"],
    ids=["none", "comment", "instruction", "spaces", "commented"],
)
def test_a_definition_is_found_up_to_the_root_element(before: str) -> None:
    with pytest.raises(ExtractionFailed, match=DEFINITION):
        check_package(sheet(before), 100 * MIB)


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_a_definition_is_found_in_each_encoding_that_parsers_of_xml_read(charset: str) -> None:
    with pytest.raises(ExtractionFailed, match=DEFINITION):
        check_package(sheet(charset=charset), 100 * MIB)


@pytest.mark.parametrize("charset", ["utf-32", "utf-32-le", "utf-32-be", "cp037"])
def test_xml_in_an_encoding_that_the_standard_forbids_is_rejected(charset: str) -> None:
    with pytest.raises(ExtractionFailed, match="the XML of a part cannot be read"):
        check_package(sheet(charset=charset), 100 * MIB)


def test_a_root_element_has_to_be_near_the_beginning() -> None:
    comment = b"<!--" + b"c" * MAX_PROLOG_BYTES + b"-->"
    content = documents.replaced(documents.excel(), {SHEET: lambda xml: comment + xml.partition(b"?>")[2]})
    with pytest.raises(ExtractionFailed, match="before its content"):
        check_package(content, 100 * MIB)


@pytest.mark.parametrize("name", ["xl/worksheets/sheet9.dat", "customxml/item9.XML", "xl/media/sheet9.xml"])
def test_a_part_of_any_name_may_have_no_definition_with_entities(name: str) -> None:
    with pytest.raises(ExtractionFailed, match=DEFINITION):
        check_package(with_part(name, SVG_WITH_ENTITY), 100 * MIB)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("xl/media/image1.svg", SVG),
        ("xl/media/image2.svg", SVG_WITH_ENTITY),
        ("xl/media/image3.png", b"\x89PNG\r\n\x1a\n" + bytes(1000)),
        ("word/afchunk.htm", b"<!DOCTYPE html><p>The kettle"),
        ("customXml/item1.xml", b""),
        (
            "customXml/item2.xml",
            "<?xml version='1.0' encoding='utf-16'?><a><!-- <!DOCTYPE x []> --></a>".encode("utf-16"),
        ),
    ],
)
def test_images_and_other_parts_are_accepted(name: str, content: bytes) -> None:
    check_package(with_part(name, content), 100 * MIB)


@pytest.mark.parametrize("make", [documents.word, documents.excel, documents.powerpoint])
def test_files_of_the_libraries_are_accepted(make: object) -> None:
    assert callable(make)
    check_package(make(), 100 * MIB)
