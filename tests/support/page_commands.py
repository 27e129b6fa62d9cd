"""Commands of pages, run with other services than a page alone has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.pages import Block, blocks_of
from tests.support.servers import inherited_environ


def block_with(page: str, code: str) -> Block:
    """The block of a page that contains a command."""
    (block,) = [block for block in blocks_of(page) if code in block.code]
    return block


def run_commands(code: str, folder: Path, **variables: str) -> str:
    """Run commands in a folder, with the installed programs in the path. All must succeed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", code],
        cwd=folder,
        env={**inherited_environ(), "PATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
