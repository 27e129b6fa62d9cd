"""The file of keys: how it is made, what it holds, and how a running service follows it."""

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
from tests.support.keyed_services import Guarded, eventually, guarded, made

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


def test_a_new_key_is_printed_once_and_kept_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    run = ragstore("keys", "new", "ingest", "--role", "writer", RAGSTORE_KEYS_FILE=str(file))

    plain = run.stdout.strip()
    assert plain.startswith("rsk_")
    assert len(plain) >= 4 + 43  # 256 bits
    assert plain not in file.read_text()
    (key,) = read_keys(str(file), STORE_KEYS)
    assert (key.name, key.scope) == ("ingest", StoreScope(role="writer"))


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    made(tmp_path / "keys", "a")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600


def test_a_new_key_takes_patterns_and_a_place_of_its_own(tmp_path: Path) -> None:
    options = ("--collections", "repo_*", "--collections", "docs", "--tenant", "acme", "--database", "prod")
    ragstore("keys", "new", "a", "--role", "reader", *options, RAGSTORE_KEYS_FILE=str(tmp_path / "keys"))

    (key,) = read_keys(str(tmp_path / "keys"), STORE_KEYS)
    assert key.scope == StoreScope(role="reader", collections=("repo_*", "docs"), tenant="acme", database="prod")


def test_a_name_is_given_once(tmp_path: Path) -> None:
    file = str(tmp_path / "keys")
    made(tmp_path / "keys", "a")
    run = ragstore("keys", "new", "a", "--role", "reader", RAGSTORE_KEYS_FILE=file)

    assert run.returncode == 1
    assert run.stdout == ""
    assert "'a'" in run.stderr
    assert len(read_keys(file, STORE_KEYS)) == 1


def test_listing_shows_names_and_roles_and_never_a_hash(tmp_path: Path) -> None:
    plain = made(tmp_path / "keys", "ingest", "writer", ("repo_*",))
    run = ragstore("keys", "list", RAGSTORE_KEYS_FILE=str(tmp_path / "keys"))

    assert run.returncode == 0
    assert all(word in run.stdout for word in ("ingest", "writer", "repo_*"))
    assert plain not in run.stdout
    assert read_keys(str(tmp_path / "keys"), STORE_KEYS)[0].sha256 not in run.stdout


def test_without_a_file_the_command_says_what_is_missing() -> None:
    run = ragstore("keys", "list")
    assert run.returncode == 1
    assert "RAGSTORE_KEYS_FILE" in run.stderr


# -- what a file may hold -----------------------------------------------------------------------


def test_comments_and_empty_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    made(file, "a")
    file.write_text(f"# who has what\n\n{file.read_text()}  # the end\n")
    assert [key.name for key in read_keys(str(file), STORE_KEYS)] == ["a"]


def test_a_key_is_added_to_a_file_without_a_last_line_break(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    made(file, "a")
    file.write_text(file.read_text().rstrip("\n"))
    made(file, "b")
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
def test_a_wrong_line_is_told_by_its_number_in_one_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "keys"
    made(file, "taken")
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(KeysError, match="line 2") as refused:
        read_keys(str(file), STORE_KEYS)
    assert "\n" not in str(refused.value)
    assert HASH not in str(refused.value)


def test_a_missing_file_stops_the_start_with_one_line_that_names_the_setting(tmp_path: Path) -> None:
    run = ragstore("serve", RAGSTORE_KEYS_FILE=str(tmp_path / "none"), RAGSTORE_DATA_PATH=str(tmp_path / "data"))
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "RAGSTORE_KEYS_FILE is wrong" in run.stderr


def test_embedded_chroma_refuses_keys_with_a_place_of_their_own(tmp_path: Path) -> None:
    made(tmp_path / "keys", "a", tenant="acme")
    run = ragstore("serve", RAGSTORE_KEYS_FILE=str(tmp_path / "keys"), RAGSTORE_DATA_PATH=str(tmp_path / "data"))
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "'a'" in run.stderr
    assert "RAGSTORE_CHROMA_URL" in run.stderr


def test_a_ring_finds_a_key_by_its_plain_text_only(tmp_path: Path) -> None:
    plain, key = new_key("a", STORE_KEYS, role="reader")
    append_key(str(tmp_path / "keys"), key, STORE_KEYS)
    ring = KeyRing(str(tmp_path / "keys"), STORE_KEYS)

    assert ring.find(plain.encode()) == key
    for wrong in (b"", plain[:-1].encode(), plain.encode() + b"\n", key.sha256.encode(), b"a"):
        assert ring.find(wrong) is None


# -- a running service --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A service whose file of keys is changed while it runs. It is read by way of links, as Kubernetes mounts it."""
    folder = tmp_path_factory.mktemp("followed")
    (folder / "..one").mkdir()
    (folder / "..data").symlink_to("..one")
    (folder / "keys.jsonl").symlink_to("..data/keys.jsonl")
    with guarded(folder, {"first": {"role": "reader"}}) as started:
        yield started


def status(followed: Guarded, plain: str) -> int:
    """How the service answers a key."""
    return httpx.get(f"{followed.served.url}/collections", headers={"X-API-Key": plain}).status_code


def test_a_key_that_is_added_is_let_in_without_restart(followed: Guarded) -> None:
    plain = made(followed.file, "second")
    eventually(lambda: status(followed, plain) == 200)
    assert status(followed, followed.plain["first"]) == 200


def test_a_key_that_is_removed_is_kept_out_without_restart(followed: Guarded) -> None:
    plain = made(followed.file, "third")
    eventually(lambda: status(followed, plain) == 200)
    kept = [line for line in followed.file.read_text().splitlines() if '"third"' not in line]
    followed.file.write_text("\n".join(kept))
    eventually(lambda: status(followed, plain) == 401)
    assert status(followed, followed.plain["first"]) == 200


def test_a_broken_file_keeps_the_keys_that_were_and_is_told_in_the_log(followed: Guarded) -> None:
    good = followed.file.read_text()
    followed.file.write_text(good + "broken\n")
    eventually(lambda: "keys not reloaded" in followed.served.log.read_text())
    assert status(followed, followed.plain["first"]) == 200

    plain = made_into(followed.file, good)
    eventually(lambda: status(followed, plain) == 200)


def made_into(file: Path, text: str) -> str:
    """Write a file anew, with a further key."""
    plain, key = new_key("fourth", STORE_KEYS, role="reader")
    file.write_text(text)
    append_key(str(file), key, STORE_KEYS)
    return plain


def test_a_secret_that_kubernetes_swaps_is_followed(followed: Guarded) -> None:
    folder = followed.file.parent
    (folder / "..two").mkdir()
    plain = made(folder / "..two" / "keys.jsonl", "swapped")
    (folder / "..next").symlink_to("..two")
    (folder / "..next").rename(folder / "..data")

    eventually(lambda: status(followed, plain) == 200)
    eventually(lambda: status(followed, followed.plain["first"]) == 401)
