"""Verify the files of Swagger UI in the package: `python -m scripts.swagger_ui`; `--fetch` replaces them (needs npm).

They come from the npm package swagger-ui-dist, unchanged. Their hashes are below, so that a change is noticed without
network. After a new version: set VERSION, run with `--fetch`, and copy the printed hashes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

VERSION: Final = "5.35.0"
STATIC: Final = Path(__file__).resolve().parents[1] / "service/ragstore/kit/docs/static"
HASHES: Final = {
    "LICENSE": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
    "NOTICE": "0d20d1adef18aee3f40dd258172155521ce702ac445cb5f7b7d60ed32dad2fb2",
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui-bundle.js.LICENSE.txt": "37eb6e7e59aed57b2c1acf076574b818ea07b74265717e0bd67b59e0baf9abbb",
    "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
}
"""SHA-256 of each file."""


def found() -> dict[str, str]:
    """The hashes of the files in the package."""
    return {name: hashlib.sha256((STATIC / name).read_bytes()).hexdigest() for name in HASHES}


def fetch() -> None:
    """Replace the files by files from npm, which verifies the package's own checksum."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"swagger-ui-dist@{VERSION}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            for name in HASHES:
                member = archive.extractfile(f"package/{name}")
                if member is None:
                    raise SystemExit(f"swagger-ui-dist {VERSION} has no file {name}")
                (STATIC / name).write_bytes(member.read())


def main() -> None:
    """Run the command; exit with 1 if a file differs."""
    if sys.argv[1:] == ["--fetch"]:
        fetch()
    wrong = [name for name, digest in found().items() if digest != HASHES[name]]
    for name in wrong:
        print(f"{name} is not the file of swagger-ui-dist {VERSION}: {found()[name]}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
