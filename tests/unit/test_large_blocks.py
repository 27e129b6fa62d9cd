"""Large blocks are returned to the system when they are freed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

SCRIPT = """
import sys
from pathlib import Path
from ragstore.kit.large_blocks import return_large_blocks

def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1] == "set":
    return_large_blocks()
block = b"x" * 2**24
del block
block = b"x" * 2**24
after = b"y" * 2**17
before = resident()
del block
print(before - resident() > 2**23)
"""


def freed(argument: str) -> str:
    return subprocess.run([sys.executable, "-c", SCRIPT, argument], capture_output=True, text=True, check=True).stdout


def test_a_large_block_is_returned_although_a_later_one_is_in_use() -> None:
    assert freed("set") == "True\n"


def test_without_it_the_c_library_keeps_such_a_block() -> None:
    """If this fails, glibc has changed, and the setting is not needed any more."""
    assert freed("") == "False\n"
