"""A bounded run of schemathesis over each store. `make fuzz` runs it for longer."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from serving import Served

sys.path.insert(0, str(Path(__file__).parent))

from campaign import fuzz  # found by the line above

SECONDS = 45
EXAMPLES = 15


def test_schemathesis_finds_nothing(service: Served) -> None:
    run = fuzz(service, SECONDS, EXAMPLES)
    cases = re.search(r"(\d+) generated", run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert cases is not None
    assert int(cases[1]) > 300
