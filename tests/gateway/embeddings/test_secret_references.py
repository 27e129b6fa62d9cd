"""Secrets by reference: where they are read from, and what is refused."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.app import create_secrets
from ragstore_gateway.errors import SecretUnavailable
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.secrets.secret_references import EnvironmentSource, FileSource, Secret, SecretReferences
from ragstore_gateway.secrets.vault import VaultSource
from ragstore_gateway.settings import Settings
from tests.gateway.embeddings.factories import references
from tests.support.fake_providers import FakeProvider, Received, fake_provider, json_response

CANARY = "canary-secret"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of secrets, beside a file that is not in it."""
    (tmp_path / "outside").write_text(CANARY)
    folder = tmp_path / "secrets"
    (folder / "openai").mkdir(parents=True)
    (folder / "openai" / "key").write_text(CANARY + "\n")
    return folder


async def test_a_variable_is_read() -> None:
    source = EnvironmentSource(environ={"OPENAI_API_KEY": CANARY})
    assert await SecretReferences({"env": source}).header("${env:OPENAI_API_KEY}") == CANARY


async def test_a_reference_within_a_text_is_replaced() -> None:
    source = EnvironmentSource(environ={"KEY": CANARY, "USER": "u"})
    secret = await SecretReferences({"env": source}).resolve("Basic ${env:USER}:${env:KEY}!")
    assert secret.reveal() == f"Basic u:{CANARY}!"


async def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(SecretUnavailable, match=r"\$\{env:MISSING\} is not set"):
        await SecretReferences({"env": EnvironmentSource(environ={})}).resolve("${env:MISSING}")


@pytest.mark.parametrize("name", ["RAGSTORE_GATEWAY_UPSTREAM_KEY", "RAGSTORE_API_KEY", "PATH"])
async def test_a_variable_of_the_gateway_or_outside_of_the_patterns_is_never_read(name: str) -> None:
    source = EnvironmentSource(("OPENAI_*", "RAGSTORE_*"), {name: CANARY})
    with pytest.raises(SecretUnavailable, match="may not be used"):
        await source.read(name)


@pytest.mark.parametrize("name", ["PATH", "HOME", "RAGSTORE_GATEWAY_UPSTREAM_KEY"])
async def test_no_pattern_makes_variables_of_the_machine_and_the_gateway_readable(name: str) -> None:
    with pytest.raises(SecretUnavailable, match="may not be used"):
        await EnvironmentSource(("*", name), {name: CANARY}).read(name)


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("OPENAI_API_KEY", True),
        ("HF_TOKEN", True),
        ("PGPASSWORD", False),
        ("DATABASE_URL", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("API_KEY_FILE", False),
    ],
)
async def test_by_default_keys_and_tokens_are_read_and_others_name_the_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, readable: bool
) -> None:
    monkeypatch.setenv(name, CANARY)
    secrets = create_secrets(Settings(), Connections())
    if readable:
        assert (await secrets.resolve(f"${{env:{name}}}")).reveal() == CANARY
        secrets.check_readable({"apiKey": f"${{env:{name}}}"}, "$")
        return
    # A configuration that is stored already, and one that is written.
    with pytest.raises(SecretUnavailable, match="RAGSTORE_GATEWAY_SECRET_VARIABLES does not name it"):
        await secrets.resolve(f"${{env:{name}}}")
    with pytest.raises(InvalidRequest, match="RAGSTORE_GATEWAY_SECRET_VARIABLES does not name it"):
        secrets.check_readable({"apiKey": f"${{env:{name}}}"}, "$")


async def test_a_file_is_read_without_the_end_of_its_line(folder: Path) -> None:
    assert await SecretReferences({"file": FileSource(folder)}).header("${file:openai/key}") == CANARY


async def test_a_file_that_changes_is_read_again(folder: Path) -> None:
    source = FileSource(folder)
    await source.read("openai/key")
    (folder / "openai" / "key").write_text("rotated")
    assert await source.read("openai/key") == "rotated"


async def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    (folder / "..data").symlink_to("openai")
    assert await FileSource(folder).read("..data/key") == CANARY


ESCAPES = ["../outside", "openai/../../outside", "link", "link-to-folder/outside", "ABSOLUTE"]
NO_FILES = ["", ".", "openai", "none", "pipe", "loop", "openai/key\0", "a" * 5000]


@pytest.mark.parametrize("name", [*ESCAPES, *NO_FILES])
async def test_no_path_leads_out_of_the_folder(folder: Path, name: str) -> None:
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "link-to-folder").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    with pytest.raises(SecretUnavailable) as caught:
        await FileSource(folder).read(str(folder.parent / "outside") if name == "ABSOLUTE" else name)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_file_that_is_too_large_is_not_a_secret(folder: Path) -> None:
    (folder / "large").write_bytes(b"a" * 70_000)
    with pytest.raises(SecretUnavailable):
        await FileSource(folder).read("large")


def test_a_literal_secret_is_rejected_without_repeating_it() -> None:
    with pytest.raises(InvalidRequest) as caught:
        references().check(CANARY, "$.apiKey")
    assert caught.value.field_errors[0].path == "$.apiKey"
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("text", [f"{CANARY}${{env:A}}", "${env:A", "${env:}", "$env:A", " ${env:A}"])
def test_a_text_that_is_not_exactly_a_reference_is_rejected(text: str) -> None:
    with pytest.raises(InvalidRequest, match="Must be a reference"):
        references().check(text, "$.apiKey")


def test_a_literal_secret_is_accepted_where_the_setting_allows_it() -> None:
    references(literals=True).check(CANARY, "$.apiKey")


@pytest.mark.parametrize(("text", "message"), [("${ftp:x}", "begins with one of"), ("${vault:a#b}", "not configured")])
def test_a_reference_that_cannot_be_resolved_here_is_rejected_when_it_is_written(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        references().check(text, "$.apiKey")
    with pytest.raises(InvalidRequest, match=message):
        references().check_template(f"Bearer {text}", "$.headers.Authorization")


def test_a_secret_shows_nothing_of_itself() -> None:
    secret = Secret(CANARY)
    assert CANARY not in f"{secret} {secret!r} {[secret]} {secret!s}"


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX-Injected: 1", "é"])
async def test_a_secret_that_a_header_cannot_have_is_an_error_without_it(value: str) -> None:
    with pytest.raises(SecretUnavailable) as caught:
        await SecretReferences({"env": EnvironmentSource(environ={"KEY": value})}).header("${env:KEY}")
    assert value not in str(caught.value)


@pytest.fixture
async def vault() -> AsyncIterator[FakeProvider]:
    """A server with Vault's key-value API, version 2: developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2."""

    async def respond(received: Received) -> web.StreamResponse:
        if received.headers.get("X-Vault-Token") != "token":
            return json_response({"errors": ["permission denied"]}, 403)
        if received.path == "/v1/secret/data/tenant/agent":
            fields = {"openai-key": CANARY, "number": 5}
            return json_response({"data": {"data": fields, "metadata": {"version": 3}}, "lease_duration": 0})
        return json_response({"errors": []}, 404)

    async with fake_provider(respond) as server:
        yield server


@pytest.mark.parametrize("reference", ["${vault:tenant/agent#openai-key}", "${eddivault:tenant/agent/openai-key}"])
async def test_a_field_of_vault_is_read_and_kept_for_a_short_time(vault: FakeProvider, reference: str) -> None:
    async with Connections() as connections:
        source = VaultSource(connections, vault.url, "token")
        secrets = SecretReferences({"vault": source, "eddivault": source})
        secrets.check(reference, "$.apiKey")
        assert await secrets.header(reference) == CANARY
        assert await secrets.header(reference) == CANARY
    assert len(vault.received) == 1


NOT_IN_VAULT = ["tenant/agent#none", "tenant/agent#number", "other#openai-key", "key", "tenant/../agent#x", "a?b#c"]


@pytest.mark.parametrize("name", NOT_IN_VAULT)
async def test_what_vault_does_not_have_is_an_error(vault: FakeProvider, name: str) -> None:
    async with Connections() as connections:
        with pytest.raises(SecretUnavailable):
            await VaultSource(connections, vault.url, "token").read(name)


async def test_the_token_of_vault_is_never_in_an_error(vault: FakeProvider) -> None:
    async with Connections() as connections:
        for url in (vault.url, "http://127.0.0.1:9"):
            with pytest.raises(SecretUnavailable) as caught:
                await VaultSource(connections, url, CANARY).read("tenant/agent#openai-key")
            assert CANARY not in str(caught.value)
