"""The types of the structs' fields are freed without a crash.

msgspec 0.22.0 frees the pattern of a string beside a list, a set or a dictionary in one union as if it were a type.
`msgspec.convert("a", Annotated[str, Meta(pattern="a")] | list[str])` ends with "double free or corruption", or damages
memory. A struct with such a field does so when its class is freed, which is at the exit of the process. No issue is
known; https://github.com/msgspec/msgspec/issues/717 (open) may have the same cause.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

FREE_EVERY_TYPE = """
import gc
import typing

import msgspec

import ragstore.app
import ragstore_gateway.app

freed = 0
for struct in gc.get_objects():
    if isinstance(struct, type) and issubclass(struct, msgspec.Struct) and struct.__module__.startswith("ragstore"):
        for annotation in typing.get_type_hints(struct, include_extras=True).values():
            try:
                msgspec.json.Decoder(annotation)  # freed immediately
            except TypeError:  # of a struct that is never decoded
                continue
            freed += 1
print("enough" if freed > 1000 else freed)
"""


@pytest.mark.process
def test_no_type_of_a_field_damages_memory_when_it_is_freed() -> None:
    # The allocator of the C library checks what is freed.
    done = subprocess.run(
        [sys.executable, "-c", FREE_EVERY_TYPE],
        env=os.environ | {"PYTHONMALLOC": "malloc"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "enough\n"), done.stderr
