"""The file of keys: one scope for each service, and the older form of one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragstore.kit.auth.commands import key_commands
from ragstore.kit.auth.keys import Key, KeyFormat, KeyRing, KeysError, append_key, new_key, read_keys
from tests.kit.tea_service import KEYS, TeaScope
from tests.support.nested import NESTED

HASH = "0" * 64
FLAT = KeyFormat("tea", TeaScope, owns_flat_form=True)


def written(folder: Path, *entries: dict[str, Any]) -> str:
    """A file of keys that share no hash."""
    file = folder / "keys"
    lines = [json.dumps({"sha256": f"{number:064x}", **entry}) for number, entry in enumerate(entries)]
    file.write_text("\n".join(lines))
    return str(file)


def scopes(keys: list[Key[TeaScope]]) -> list[TeaScope | None]:
    return [key.scope for key in keys]


def test_a_service_reads_its_own_scope_and_ignores_those_of_others(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {"name": "a", "scopes": {"tea": {"role": "host", "teas": ["green"]}, "store": {"whatever": 1}}},
        {"name": "b", "scopes": {"store": {"role": "admin"}}},
        {"name": "c", "scopes": {}},
    )
    assert scopes(read_keys(file, KEYS)) == [TeaScope(role="host", teas=("green",)), None, None]


def test_the_older_form_is_for_one_service_and_ignored_by_others(tmp_path: Path) -> None:
    file = written(tmp_path, {"name": "a", "role": "guest", "teas": ["green"], "created": "2026-11-21"})
    assert scopes(read_keys(file, FLAT)) == [TeaScope(role="guest", teas=("green",))]
    assert scopes(read_keys(file, KEYS)) == [None]


@pytest.mark.parametrize("format_", [KEYS, FLAT], ids=["scopes", "older form"])
def test_a_key_is_read_as_it_was_written(tmp_path: Path, format_: KeyFormat[TeaScope]) -> None:
    plain, key = new_key("a", format_, role="host", teas=("green",))
    append_key(str(tmp_path / "keys"), key, format_)
    assert read_keys(str(tmp_path / "keys"), format_) == [key]
    assert KeyRing(str(tmp_path / "keys"), format_).find(plain.encode()) == key
    assert ("scopes" in json.loads((tmp_path / "keys").read_text())) == (format_ is KEYS)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"name": "a"}, "`scopes`"),
        ({"name": "a", "scope": {"tea": {"role": "host"}}}, "`scopes`"),
        ({"name": "a", "scopes": []}, "`object`"),
        ({"name": "a", "scopes": {"tea": {}}}, "`role`"),
        ({"name": "a", "scopes": {"tea": {"role": "admin"}}}, "admin"),
        ({"name": "a", "scopes": {"tea": {"role": "host", "cups": 1}}}, "`cups`"),
        ({"name": "a", "role": "host", "scopes": {"tea": {"role": "host"}}}, "`role`"),
        ({"name": "a", "scopes": {"tea": {"role": "host"}}, "extra": 1}, "`extra`"),
        ({"scopes": {}}, "`name`"),
    ],
)
def test_a_field_that_is_not_valid_is_an_error(tmp_path: Path, entry: dict[str, Any], complaint: str) -> None:
    with pytest.raises(KeysError, match=f"line 1: .*{complaint}"):
        read_keys(written(tmp_path, entry), KEYS)


def test_a_line_that_is_nested_too_deeply_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b'{"name": "a", "scopes": ' + NESTED.strip() + b"}\n")
    with pytest.raises(KeysError, match="line 1: it is not JSON"):
        read_keys(str(file), KEYS)


def test_a_service_may_object_to_a_scope(tmp_path: Path) -> None:
    file = written(tmp_path, {"name": "a", "scopes": {"tea": {"role": "host"}}}, {"name": "b", "scopes": {}})
    with pytest.raises(KeysError, match="the key 'a' is too powerful"):
        KeyRing(file, KEYS, lambda scope: "is too powerful" if scope.role == "host" else "")


def test_the_commands_have_an_option_for_each_field_of_the_scope(tmp_path: Path) -> None:
    commands = key_commands(KEYS, "TEA_KEYS_FILE", lambda: str(tmp_path / "keys"))
    made = CliRunner().invoke(commands, ["new", "a", "--role", "guest", "--teas", "green", "--teas", "white"])
    assert made.output.startswith("rsk_")
    assert scopes(read_keys(str(tmp_path / "keys"), KEYS)) == [TeaScope(role="guest", teas=("green", "white"))]
    listed = CliRunner().invoke(commands, ["list"]).output.splitlines()
    assert [line.split()[:2] for line in listed] == [["NAME", "ROLE"], ["a", "guest"]]
    assert listed[1].endswith("green white")


def test_a_role_of_another_service_is_no_option(tmp_path: Path) -> None:
    commands = key_commands(KEYS, "TEA_KEYS_FILE", lambda: str(tmp_path / "keys"))
    assert CliRunner().invoke(commands, ["new", "a", "--role", "admin"]).exit_code == 2
    assert not (tmp_path / "keys").exists()


def test_without_a_file_the_commands_name_the_variable() -> None:
    commands = key_commands(KEYS, "TEA_KEYS_FILE", lambda: "")
    assert "TEA_KEYS_FILE is not set" in CliRunner().invoke(commands, ["list"]).output
