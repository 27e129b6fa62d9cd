"""`ragstore export --all DIR` and `ragstore import DIR`: every collection, one file for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.servers import running, start_service
from tests.support.transfers import Store, exported, ragstore

LONG = "n" * 300


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    """A service with three collections, and an empty one."""
    with ExitStack() as stack:
        services = [running(start_service(tmp_path_factory.mktemp("service"))) for _ in range(2)]
        source, target = (stack.enter_context(Store.of(stack.enter_context(each))) for each in services)
        source.fill("alpha", 30, 4, "l2")
        source.fill("beta", 5, 3, "cosine")
        source.fill(LONG, 2, 2, "ip")
        yield source, target


@pytest.fixture
def folder(stores: tuple[Store, Store], tmp_path: Path) -> Path:
    """A folder with all collections."""
    run = ragstore("export", "--all", tmp_path / "backup", "--url", stores[0].url)
    assert run.exit_code == 0, run.output
    assert "exported 3 collections" in run.output
    return tmp_path / "backup"


def names(store: Store) -> list[str]:
    return [each["name"] for each in store.http.get("/collections").json()["collections"]]


def test_all_collections_come_back_from_a_folder(stores: tuple[Store, Store], folder: Path, tmp_path: Path) -> None:
    source, target = stores
    run = ragstore("import", folder, "--url", target.url, "--verify")
    assert run.exit_code == 0, run.output
    assert names(target) == ["alpha", "beta", LONG]
    for name in ("alpha", LONG):
        assert exported(source, name, tmp_path / "a") == exported(target, name, tmp_path / "b", "--force")
        (tmp_path / "a").unlink()
    again = ragstore("import", folder, "--url", target.url)
    assert again.exit_code == 1
    assert "3 of 3 collections failed" in again.output
    resumed = ragstore("import", folder, "--url", target.url, "--resume")
    assert resumed.exit_code == 0
    assert "30 documents, 30 of them existed already" in resumed.output


def test_an_existing_file_is_kept_and_the_others_are_written(stores: tuple[Store, Store], tmp_path: Path) -> None:
    (tmp_path / "alpha.jsonl.zst").write_text("mine")
    run = ragstore("export", "--all", tmp_path, "--url", stores[0].url)
    assert run.exit_code == 1
    assert "1 of 3 collections failed" in run.output
    assert (tmp_path / "alpha.jsonl.zst").read_text() == "mine"
    assert (tmp_path / "beta.jsonl.zst").exists()
    assert ragstore("export", "--all", tmp_path, "--url", stores[0].url, "--force").exit_code == 0


def test_a_damaged_file_prevents_the_import_of_all(stores: tuple[Store, Store], folder: Path) -> None:
    damaged = folder / "beta.jsonl.zst"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    before = names(stores[1])
    run = ragstore("import", folder, "--url", stores[1].url)
    assert run.exit_code == 3
    assert "beta.jsonl.zst" in run.output
    assert names(stores[1]) == before


def test_a_folder_without_exports_is_an_error(stores: tuple[Store, Store], tmp_path: Path) -> None:
    run = ragstore("import", tmp_path, "--url", stores[1].url)
    assert run.exit_code == 1
    assert "holds no export" in run.output


@pytest.mark.parametrize(
    "arguments",
    [("export", "--all"), ("export", "alone"), ("export", "--all", "a", "b"), ("import", ".", "--into", "x")],
)
def test_a_wrong_command_line_is_2(arguments: tuple[str, ...]) -> None:
    assert ragstore(*arguments).exit_code == 2
