"""Forms are parsed in memory, within limits."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from litestar import Request, post
from litestar.datastructures import State
from litestar.testing import AsyncTestClient

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.problems import EXCEPTION_HANDLERS
from ragstore.kit.service import UntracedLitestar, WholeBodyRequest
from ragstore_gateway.api.forms import MAX_FIELD_BYTES, MAX_PARTS, SLICE_BYTES, Form, parse_form, read_form

BOUNDARY = "the-boundary"


def part(content: bytes, name: str = "file", file: str | None = "a.txt", media_type: str = "") -> bytes:
    """A part of a form."""
    disposition = f'form-data; name="{name}"' + ("" if file is None else f'; filename="{file}"')
    kind = f"Content-Type: {media_type}\r\n" if media_type else ""
    head = f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n{kind}\r\n"
    return head.encode() + content + b"\r\n"


def parsed(*parts: bytes) -> Form:
    """A form of parts."""
    return parse_form(b"".join(parts) + f"--{BOUNDARY}--\r\n".encode(), BOUNDARY)


def test_fields_and_files_are_parsed_in_order() -> None:
    form = parsed(
        part(b"assistants", "purpose", file=None),
        part(b"second", "purpose", file=None),
        part(b"\x00\xff", "file", "r\u00e4tt.bin", "Application/PDF; x=y"),
        part(b"", "other", "b.txt"),
    )
    assert form.fields == {"purpose": "assistants"}
    assert form.names == {"purpose", "file", "other"}
    assert [(each.field, each.name, each.media_type, each.content) for each in form.files] == [
        ("file", "r\u00e4tt.bin", "application/pdf", b"\x00\xff"),
        ("other", "b.txt", "text/plain", b""),
    ]


@pytest.mark.parametrize("shift", range(-3, 4))
def test_a_file_is_the_same_wherever_its_slices_end(shift: int) -> None:
    almost = f"\r\n--{BOUNDARY[:-1]}".encode()
    content = almost * ((3 * SLICE_BYTES + shift) // len(almost)) + b"\r" * (SLICE_BYTES + shift)
    form = parsed(part(content), part(content[::-1]))
    assert [each.content for each in form.files] == [content, content[::-1]]


def test_a_field_that_is_not_a_file_has_a_maximum_size_and_is_named() -> None:
    assert len(parsed(part(b"x" * MAX_FIELD_BYTES, "note", None)).fields["note"]) == MAX_FIELD_BYTES
    with pytest.raises(InvalidRequest, match="at most 65536 bytes") as raised:
        parsed(part(b"x" * (MAX_FIELD_BYTES + 1), "note", None))
    assert [each.path for each in raised.value.field_errors] == ["$.note"]


def test_a_form_has_a_maximum_of_parts() -> None:
    assert len(parsed(*[part(b"x")] * MAX_PARTS).files) == MAX_PARTS
    with pytest.raises(InvalidRequest):
        parsed(*[part(b"x")] * (MAX_PARTS + 1))


@pytest.mark.parametrize(
    ("body", "boundary"),
    [
        (b"x", BOUNDARY),
        (part(b"x"), BOUNDARY),
        (part(b"x") + b"--the-boundary--", ""),
        (part(b"x") + b"--the-boundary--", "other"),
        (part(b"\xff", "purpose", None) + b"--the-boundary--", BOUNDARY),
        (b"--the-boundary\r\nContent-Type: text/plain\r\n\r\nx\r\n--the-boundary--", BOUNDARY),
    ],
)
def test_a_body_that_is_no_form_is_400(body: bytes, boundary: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a valid multipart/form-data"):
        parse_form(body, boundary)


def test_an_empty_body_is_a_form_without_parts() -> None:
    assert parse_form(b"", BOUNDARY) == Form({}, [])


async def test_a_form_is_parsed_without_temporary_files_and_its_body_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

    @post("/")
    async def handler(request: Request[None, None, State]) -> dict[str, int]:
        form = await read_form(request)
        return {"file": len(form.files[0].content), "body": len(await request.body())}

    app = UntracedLitestar(
        [handler], request_class=WholeBodyRequest, exception_handlers=EXCEPTION_HANDLERS, request_max_body_size=None
    )
    async with AsyncTestClient(app) as client:
        response = await client.post("/", files={"file": ("large.bin", b"x" * (3 * 1024 * 1024))})
    assert response.json() == {"file": 3 * 1024 * 1024, "body": 0}
