"""The fast tier: `pytest --fast` runs the tests that start no process. `make test-fast` runs it with a time limit.

`pytest --after-fast` runs all others. It runs the properties of the fast tier again, with more examples.

A test is not in the tier if it uses a fixture with `@starts_process`, itself or through other fixtures, if it has the
marker `process`, or if it is in one of `PROCESS_FOLDERS`. A test of the tier that starts a process fails.

The tier does not import a module with `pytestmark = pytest.mark.process`: each worker imports all modules, and the
packages of some take a second. The end of a run lists modules without a test of the tier that lack this line.
"""

from __future__ import annotations

import multiprocessing.util
import os
import re
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import is_hypothesis_test

from tests.support.process_fixtures import is_declared

PROCESS_FOLDERS = frozenset(
    {
        *("system", "soak", "fuzz", "node", "deploy", "transfer", "chroma_quirks", "hostile", "old_chroma", "page"),
        *("runs", "gateway/openai_vector_stores"),
    }
)
"""Folders of `tests/` whose tests start processes of their own. The fast tier does not import them."""

PROCESS_EVENTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty")

PROCESS_MODULE = re.compile(r"^pytestmark = pytest\.mark\.process$", re.MULTILINE)

_started = pytest.StashKey[float]()

_in_vain = pytest.StashKey[set[str]]()
"""Modules that were imported although none of their tests is in the tier."""

_being_set_up: list[str] = []
"""The fixture that is being set up, after the fixtures that requested it while they were set up themselves."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fast`, `--after-fast` and `--max-seconds`."""
    parser.addoption("--fast", action="store_true", help="run only tests that start no process")
    after = "run only the other tests, and properties, of which the fast tier checks fewer examples"
    parser.addoption("--after-fast", action="store_true", help=after)
    parser.addoption("--max-seconds", type=float, help="fail a run that takes longer, even if all tests pass")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.stash[_in_vain] = set()
    config.addinivalue_line("markers", "process: the test starts a process")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the folders and the modules of tests that start processes, in the fast tier."""
    if not config.getoption("--fast"):
        return None
    if collection_path.is_dir():
        is_slow = any(collection_path == config.rootpath / "tests" / name for name in PROCESS_FOLDERS)
    else:
        is_slow = collection_path.suffix == ".py" and bool(PROCESS_MODULE.search(collection_path.read_text("utf-8")))
    return True if is_slow else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the other tests that start processes, in the fast tier, or the tests that it has run."""
    if config.getoption("--fast"):
        deselected = {item for item in items if _starts_process(item)}
        in_tier = {_module(item) for item in items if item not in deselected}
        config.stash[_in_vain] = {module for item in deselected if (module := _module(item)) not in in_tier}
    elif config.getoption("--after-fast"):
        deselected = {
            item for item in items if not (_is_in_folder(item) or _starts_process(item) or _is_property(item))
        }
    else:
        return
    config.hook.pytest_deselected(items=[item for item in items if item in deselected])
    items[:] = [item for item in items if item not in deselected]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Forbid processes from here on, in the fast tier: pytest and its plugins may start some before."""
    if session.config.getoption("--fast"):
        sys.addaudithook(_reject_process)
        multiprocessing.util.spawnv_passfds = _reject_spawning


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Remember the fixture for the error, and reject one that was requested while the tests ran, in the fast tier."""
    if request.config.getoption("--fast") and is_declared(fixturedef):
        requested = f"`{fixturedef.argname}` by `getfixturevalue`, which starts a process"
        raise RuntimeError(f"{_culprit()} of the fast tier requests {requested}. {_remedy()}")
    _being_set_up.append(f"`{fixturedef.argname}` in {fixturedef.func.__module__}")
    try:
        return (yield)
    finally:
        _being_set_up.pop()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Take the time."""
    session.config.stash[_started] = time.monotonic()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the modules that a worker of pytest-xdist imported in vain."""
    modules: list[str] = getattr(node, "workeroutput", {}).get("in_vain", [])
    node.config.stash[_in_vain].update(modules)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that took too long."""
    if hasattr(session.config, "workeroutput"):
        modules = session.config.stash[_in_vain]
        session.config.workeroutput["in_vain"] = sorted(modules)
    limit: float | None = session.config.getoption("--max-seconds")
    is_late = limit is not None and time.monotonic() - session.config.stash[_started] > limit
    if is_late and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Compare the time with the limit. Processor time shows whether the tests or the machine took too long."""
    modules = config.stash[_in_vain]
    if modules:
        terminalreporter.section("modules without a test of the fast tier: add `pytestmark = pytest.mark.process`")
        for module in sorted(modules):
            terminalreporter.line(module)
    limit: float | None = config.getoption("--max-seconds")
    if limit is None:
        return
    seconds = time.monotonic() - config.stash[_started]
    times = os.times()
    processor_seconds = times.user + times.system + times.children_user + times.children_system
    verdict = "TOO LONG: " if seconds > limit else ""
    terminalreporter.section("time")
    terminalreporter.line(f"{verdict}{seconds:.1f} s of {limit:g} s, {processor_seconds:.1f} s of processor time")


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _is_in_folder(item: pytest.Item) -> bool:
    return any(item.path.is_relative_to(item.config.rootpath / "tests" / name) for name in PROCESS_FOLDERS)


def _is_property(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)


def _starts_process(item: pytest.Item) -> bool:
    return item.get_closest_marker("process") is not None or any(map(is_declared, _fixtures(item)))


def _fixtures(item: pytest.Item) -> list[pytest.FixtureDef[object]]:
    """The definitions of all fixtures that an item uses, without fixtures that are only known while it runs."""
    if not isinstance(item, pytest.Function):
        return []
    # pytest has no public way to them before the tests run.
    found = []
    for name in item._fixtureinfo.names_closure:
        for definition in reversed(item._fixtureinfo.name2fixturedefs.get(name, ())):
            found.append(definition)
            # One that requests its own name requests the definition that it overrides.
            if name not in definition.argnames:
                break
    return found


def _reject_process(event: str, arguments: tuple[object, ...]) -> None:
    if event in PROCESS_EVENTS:
        _reject()


def _reject_spawning(path: bytes, args: Sequence[object], passfds: Sequence[int]) -> int:
    _reject()


def _reject() -> NoReturn:
    raise RuntimeError(f"{_culprit()} of the fast tier starts a process. {_remedy()}")


def _culprit() -> str:
    if _being_set_up:
        return f"The fixture {_being_set_up[-1]}"
    return f"The test {os.environ.get('PYTEST_CURRENT_TEST', '')}"


def _remedy() -> str:
    if _being_set_up:
        return "Declare it with @starts_process, below @pytest.fixture"
    return "Mark it with pytest.mark.process"
