"""The fast tier: which tests are in it, what its errors say, and its time limit."""

from __future__ import annotations

from tests.runs.conftest import InnerRun

FIXTURES = """
    import subprocess
    import pytest
    from tests.support.process_fixtures import starts_process

    @pytest.fixture(scope="session")
    @starts_process
    def server():
        return subprocess.Popen(["true"]).wait()

    @pytest.fixture(scope="session")
    @starts_process
    async def async_server():
        return subprocess.Popen(["true"]).wait()

    @pytest.fixture
    def client(server):
        return server

    @pytest.fixture
    def by_name(request):
        return request.getfixturevalue("server")

    @pytest.fixture
    def undeclared():
        return subprocess.Popen(["true"]).wait()
"""


def test_a_test_is_not_in_the_tier_if_a_fixture_that_it_needs_is_declared(inner: InnerRun) -> None:
    inner.write("conftest", FIXTURES)
    needing = [f"def test_{name}({name}): pass" for name in ("server", "async_server", "client")]
    inner.write("test_a", "\n".join([*needing, "def test_other(): pass"]))
    assert inner.pytest("--fast").counts == {"passed": 1, "deselected": 3}
    assert inner.pytest().counts == {"passed": 4}


def test_a_fixture_that_overrides_a_declared_one_is_in_the_tier_unless_it_needs_that_one(inner: InnerRun) -> None:
    inner.write("conftest", FIXTURES)
    inner.write("test_a", "import pytest\n@pytest.fixture\ndef server(): pass\ndef test_it(client): pass")
    inner.write("test_b", "import pytest\n@pytest.fixture\ndef server(server): pass\ndef test_it(client): pass")
    assert inner.pytest("--fast").counts == {"passed": 1, "deselected": 1}


def test_a_marked_test_and_one_in_a_folder_of_such_tests_are_not_in_the_tier(inner: InnerRun) -> None:
    inner.write("test_a", "import pytest\n@pytest.mark.process\ndef test_it(): pass\ndef test_other(): pass")
    inner.write("tests/system/test_b", "def test_it(): pass")
    assert inner.pytest("--fast").counts == {"passed": 1, "deselected": 1}


def test_a_module_without_a_test_of_the_tier_is_listed_and_with_the_marker_it_is_not_imported(inner: InnerRun) -> None:
    inner.write("conftest", FIXTURES)
    inner.write("test_a", "def test_it(client): pass")
    inner.write("test_b", "def test_it(client): pass\ndef test_other(): pass")
    marked = "import pytest\n\npytestmark = pytest.mark.process\n\nraise AssertionError"
    inner.write("test_c", marked)
    for workers in ("0", "1"):
        run = inner.pytest("--fast", "--numprocesses", workers)
        assert run.counts["passed"] == 1
        _, _, listed = run.output.partition("modules without a test of the fast tier")
        assert [name for name in ("test_a.py", "test_b.py", "test_c.py") if name in listed] == ["test_a.py"]


def test_the_run_after_the_tier_has_all_other_tests_and_the_properties_of_the_tier(inner: InnerRun) -> None:
    inner.write("conftest", FIXTURES)
    property_ = "from hypothesis import given, strategies\n@given(strategies.none())\ndef test_property(_): pass\n"
    inner.write("test_a", f"{property_}def test_it(): pass\ndef test_needing(client): pass")
    inner.write("tests/system/test_b", "def test_it(): pass")
    assert inner.pytest("--fast").counts == {"passed": 2, "deselected": 1}
    assert inner.pytest("--after-fast").counts == {"passed": 3, "deselected": 1}


def test_the_error_names_a_fixture_that_starts_a_process_without_a_declaration(inner: InnerRun) -> None:
    inner.write("conftest", FIXTURES)
    inner.write("test_a", "def test_it(undeclared): pass")
    run = inner.pytest("--fast")
    assert run.counts == {"error": 1}
    assert "The fixture `undeclared` in conftest of the fast tier starts a process. Declare it with" in run.output


def test_the_error_names_a_fixture_that_requests_a_declared_one_by_name(inner: InnerRun) -> None:
    inner.write("conftest", FIXTURES)
    inner.write("test_a", "def test_it(by_name): pass")
    run = inner.pytest("--fast")
    assert run.counts == {"error": 1}
    assert "The fixture `by_name` in conftest of the fast tier requests `server` by `getfixturevalue`" in run.output


def test_the_error_names_a_test_that_starts_a_process_without_a_marker(inner: InnerRun) -> None:
    inner.write(
        "test_a",
        """
        import multiprocessing, os, subprocess
        def test_run(): subprocess.run(["true"])
        def test_posix(): os.posix_spawn("/bin/true", ["true"], {})
        def test_spawn(): multiprocessing.get_context("spawn").Process().start()
        """,
    )
    run = inner.pytest("--fast")
    assert run.counts == {"failed": 3}
    for name in ("test_run", "test_posix", "test_spawn"):
        assert f"The test test_a.py::{name} (call) of the fast tier starts a process. Mark it with" in run.output


def test_a_run_beyond_its_time_limit_fails_although_all_tests_pass(inner: InnerRun) -> None:
    inner.write("test_a", "def test_it(): pass")
    late = inner.pytest("--fast", "--max-seconds", "0.001", "--numprocesses", "2")
    assert (late.code, late.counts) == (1, {"passed": 1})
    assert "TOO LONG" in late.output
    in_time = inner.pytest("--fast", "--max-seconds", "600", "--numprocesses", "2")
    assert (in_time.code, in_time.counts) == (0, {"passed": 1})
    assert "s of 600 s, " in in_time.output


def test_the_target_of_the_makefile_has_a_limit_of_a_minute(inner: InnerRun) -> None:
    assert "--fast --max-seconds 60 " in inner.command("test-fast")


def test_a_run_of_all_tests_leaves_out_those_of_the_tier_by_a_variable_only(inner: InnerRun) -> None:
    assert "--after-fast" not in inner.command("test")
    assert "--after-fast" in inner.command("test", "AFTER_FAST=1")
