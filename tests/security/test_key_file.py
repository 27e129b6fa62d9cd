"""The file of keys: its creation, its format, and its reload by a running service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstore.kit.auth.keys import KeyRing, KeysError, append_key, new_key, read_keys
from ragstore.store.key_scope import STORE_KEYS, StoreScope
from tests.support.keyed_services import KeyedService, create_key, eventually, keyed_service

HASH = "0" * 64


def ragstore(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}
    return subprocess.run(
        [str(Path(sys.executable).parent / "ragstore"), *arguments],
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# -- the command --------------------------------------------------------------------------------


@pytest.mark.process
def test_a_new_key_is_printed_once_and_not_stored(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    run = ragstore("keys", "new", "ingest", "--role", "writer", RAGSTORE_KEYS_FILE=str(file))

    plain = run.stdout.strip()
    assert plain.startswith("rsk_")
    assert len(plain) >= 4 + 43  # 256 bits
    assert plain not in file.read_text()
    (key,) = read_keys(str(file), STORE_KEYS)
    assert (key.name, key.scope) == ("ingest", StoreScope(role="writer"))


def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    create_key(tmp_path / "keys", "a")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600


@pytest.mark.process
def test_a_new_key_may_have_patterns_a_tenant_and_a_database(tmp_path: Path) -> None:
    options = ("--collections", "repo_*", "--collections", "docs", "--tenant", "acme", "--database", "prod")
    ragstore("keys", "new", "a", "--role", "reader", *options, RAGSTORE_KEYS_FILE=str(tmp_path / "keys"))

    (key,) = read_keys(str(tmp_path / "keys"), STORE_KEYS)
    assert key.scope == StoreScope(role="reader", collections=("repo_*", "docs"), tenant="acme", database="prod")


@pytest.mark.process
def test_two_keys_cannot_have_one_name(tmp_path: Path) -> None:
    file = str(tmp_path / "keys")
    create_key(tmp_path / "keys", "a")
    run = ragstore("keys", "new", "a", "--role", "reader", RAGSTORE_KEYS_FILE=file)

    assert run.returncode == 1
    assert run.stdout == ""
    assert "'a'" in run.stderr
    assert len(read_keys(file, STORE_KEYS)) == 1


@pytest.mark.process
def test_listing_shows_names_and_roles_and_never_a_hash(tmp_path: Path) -> None:
    plain = create_key(tmp_path / "keys", "ingest", "writer", ("repo_*",))
    run = ragstore("keys", "list", RAGSTORE_KEYS_FILE=str(tmp_path / "keys"))

    assert run.returncode == 0
    assert all(word in run.stdout for word in ("ingest", "writer", "repo_*"))
    assert plain not in run.stdout
    assert read_keys(str(tmp_path / "keys"), STORE_KEYS)[0].sha256 not in run.stdout


@pytest.mark.process
def test_without_a_file_the_command_names_the_missing_setting() -> None:
    run = ragstore("keys", "list")
    assert run.returncode == 1
    assert "RAGSTORE_KEYS_FILE" in run.stderr


# -- format -------------------------------------------------------------------------------------


def test_comments_and_empty_lines_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    create_key(file, "a")
    file.write_text(f"# who has what\n\n{file.read_text()}  # the end\n")
    assert [key.name for key in read_keys(str(file), STORE_KEYS)] == ["a"]


def test_a_key_is_added_to_a_file_without_a_last_line_break(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    create_key(file, "a")
    file.write_text(file.read_text().rstrip("\n"))
    create_key(file, "b")
    assert [key.name for key in read_keys(str(file), STORE_KEYS)] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "{}",
        json.dumps({"name": "a", "role": "reader"}),
        json.dumps({"name": "a", "role": "owner", "sha256": HASH}),
        json.dumps({"name": "a b", "role": "reader", "sha256": HASH}),
        json.dumps({"name": "a", "role": "reader", "sha256": "abc"}),
        json.dumps({"name": "a", "role": "reader", "sha256": HASH, "collections": []}),
        json.dumps({"name": "a", "role": "reader", "sha256": HASH, "collections": "repo_*"}),
        json.dumps({"name": "a", "role": "reader", "sha256": HASH, "colections": ["repo_*"]}),
        json.dumps({"name": "taken", "role": "reader", "sha256": HASH}),
        json.dumps({"name": "a", "role": "reader", "sha256": HASH, "tenant": "ab"}),
    ],
)
def test_the_error_of_an_invalid_line_is_one_line_with_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "keys"
    create_key(file, "taken")
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(KeysError, match="line 2") as error:
        read_keys(str(file), STORE_KEYS)
    assert "\n" not in str(error.value)
    assert HASH not in str(error.value)


@pytest.mark.process
def test_a_missing_file_stops_the_start_with_one_line_that_names_the_setting(tmp_path: Path) -> None:
    run = ragstore("serve", RAGSTORE_KEYS_FILE=str(tmp_path / "none"), RAGSTORE_DATA_PATH=str(tmp_path / "data"))
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "RAGSTORE_KEYS_FILE is wrong" in run.stderr


@pytest.mark.process
def test_embedded_chroma_rejects_keys_with_a_tenant(tmp_path: Path) -> None:
    create_key(tmp_path / "keys", "a", tenant="acme")
    run = ragstore("serve", RAGSTORE_KEYS_FILE=str(tmp_path / "keys"), RAGSTORE_DATA_PATH=str(tmp_path / "data"))
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "'a'" in run.stderr
    assert "RAGSTORE_CHROMA_URL" in run.stderr


def test_a_key_ring_finds_a_key_by_its_plain_text_only(tmp_path: Path) -> None:
    plain, key = new_key("a", STORE_KEYS, role="reader")
    append_key(str(tmp_path / "keys"), key, STORE_KEYS)
    ring = KeyRing(str(tmp_path / "keys"), STORE_KEYS)

    assert ring.find(plain.encode()) == key
    for wrong in (b"", plain[:-1].encode(), plain.encode() + b"\n", key.sha256.encode(), b"a"):
        assert ring.find(wrong) is None


# -- a running service --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedService]:
    """A service whose file of keys changes while it runs. It is read through links, as Kubernetes mounts it."""
    folder = tmp_path_factory.mktemp("followed")
    (folder / "..one").mkdir()
    (folder / "..data").symlink_to("..one")
    (folder / "keys.jsonl").symlink_to("..data/keys.jsonl")
    with keyed_service(folder, {"first": {"role": "reader"}}) as started:
        yield started


def status_with(followed: KeyedService, plain: str) -> int:
    """The status of a request with a key."""
    return httpx.get(f"{followed.served.url}/collections", headers={"X-API-Key": plain}).status_code


@pytest.mark.process
def test_an_added_key_is_accepted_without_a_restart(followed: KeyedService) -> None:
    plain = create_key(followed.keys_file, "second")
    eventually(lambda: status_with(followed, plain) == 200)
    assert status_with(followed, followed.keys["first"]) == 200


@pytest.mark.process
def test_a_removed_key_is_rejected_without_a_restart(followed: KeyedService) -> None:
    plain = create_key(followed.keys_file, "third")
    eventually(lambda: status_with(followed, plain) == 200)
    others = [line for line in followed.keys_file.read_text().splitlines() if '"third"' not in line]
    followed.keys_file.write_text("\n".join(others))
    eventually(lambda: status_with(followed, plain) == 401)
    assert status_with(followed, followed.keys["first"]) == 200


@pytest.mark.process
def test_an_invalid_file_is_logged_and_the_previous_keys_stay_valid(followed: KeyedService) -> None:
    good = followed.keys_file.read_text()
    followed.keys_file.write_text(good + "broken\n")
    eventually(lambda: "keys not reloaded" in followed.served.log.read_text())
    assert status_with(followed, followed.keys["first"]) == 200

    plain = rewrite(followed.keys_file, good)
    eventually(lambda: status_with(followed, plain) == 200)


def rewrite(file: Path, text: str) -> str:
    """Replace a file's text and append another key; return the plain key."""
    plain, key = new_key("fourth", STORE_KEYS, role="reader")
    file.write_text(text)
    append_key(str(file), key, STORE_KEYS)
    return plain


@pytest.mark.process
def test_a_secret_that_kubernetes_replaces_is_reloaded(followed: KeyedService) -> None:
    folder = followed.keys_file.parent
    (folder / "..two").mkdir()
    plain = create_key(folder / "..two" / "keys.jsonl", "swapped")
    (folder / "..next").symlink_to("..two")
    (folder / "..next").rename(folder / "..data")

    eventually(lambda: status_with(followed, plain) == 200)
    eventually(lambda: status_with(followed, followed.keys["first"]) == 401)
