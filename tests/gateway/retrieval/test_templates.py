"""Templates of HTTP calls: each value stays one value, whatever it contains."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from ragstore_gateway.errors import SecretUnavailable
from ragstore_gateway.retrieval.templates import in_form, in_header, in_json, in_text, in_url, render
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences

HOSTILE = '&x=1#f/../?%41+"\\\r\nX-Evil: 1{userInput}${env:KEY}\u2028ü\x00'
SECRETS = SecretReferences({"env": EnvironmentSource(environ={"KEY": 's3"&cret', "BAD": "a\r\nb"})})


async def test_the_question_is_one_parameter_of_a_url() -> None:
    url = await render("http://h/p?q={userInput}&limit=3", HOSTILE, in_url, SECRETS)
    assert parse_qs(urlsplit(url).query, keep_blank_values=True) == {"q": [HOSTILE], "limit": ["3"]}
    assert urlsplit(url).fragment == ""


async def test_the_question_is_one_string_of_a_json_body() -> None:
    body = await render('{"query": "about {userInput}!", "k": 3}', HOSTILE, in_json, SECRETS)
    assert json.loads(body) == {"query": f"about {HOSTILE}!", "k": 3}


async def test_the_question_is_one_field_of_a_form() -> None:
    body = await render("q={userInput}&k=3", HOSTILE, in_form, SECRETS)
    assert parse_qs(body, keep_blank_values=True) == {"q": [HOSTILE], "k": ["3"]}


async def test_the_question_is_one_line_of_a_header() -> None:
    value = await render("about {userInput}", HOSTILE, in_header, SECRETS)
    assert value.isascii()
    assert value.isprintable()


async def test_the_question_is_unchanged_in_plain_text() -> None:
    assert await render("about {userInput}", HOSTILE, in_text, SECRETS) == f"about {HOSTILE}"


async def test_references_in_the_question_are_not_resolved() -> None:
    body = await render('{"q": "{userInput}"}', "${env:KEY}", in_json, SECRETS)
    assert json.loads(body) == {"q": "${env:KEY}"}


async def test_a_secret_is_escaped_where_it_occurs() -> None:
    assert parse_qs(await render("k=${env:KEY}", "", in_url, SECRETS)) == {"k": ['s3"&cret']}
    assert json.loads(await render('{"k": "${env:KEY}"}', "", in_json, SECRETS)) == {"k": 's3"&cret'}
    assert await render("Bearer ${env:KEY}", "", in_header, SECRETS) == 'Bearer s3"&cret'


async def test_a_secret_that_a_header_cannot_have_is_rejected_and_not_shown() -> None:
    with pytest.raises(SecretUnavailable) as raised:
        await render("Bearer ${env:BAD}", "", in_header, SECRETS)
    assert "a\r\nb" not in str(raised.value)


async def test_half_of_a_surrogate_pair_does_no_harm() -> None:
    for escape in (in_url, in_form, in_json, in_header, in_text):
        (await render("{userInput}", "\ud83d", escape, SECRETS)).encode()
