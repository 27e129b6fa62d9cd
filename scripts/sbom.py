"""Software bills of material (CycloneDX 1.6) of the images, from the locks that they are installed from.

The format is written here: a lock has everything that it needs, and the library for it would be one more dependency of
a release. A release's files are validated by the tests against the rules that matter to readers: names, versions,
package URLs and hashes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

PIN: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)", re.MULTILINE)
HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: Path) -> list[dict[str, Any]]:
    """The packages of a lock."""
    text = lock.read_text()
    pins = list(PIN.finditer(text))
    ends = [pin.start() for pin in pins[1:]] + [len(text)]
    found = []
    for pin, end in zip(pins, ends, strict=True):
        name = re.sub(r"[-_.]+", "-", pin["name"]).lower()
        url = f"pkg:pypi/{name}@{pin['version']}"
        # One hash for each file of the package; which one is installed depends on the machine.
        distributions = [
            {"type": "distribution", "url": url, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for digest in HASH.findall(text, pin.end(), end)
        ]
        found.append(
            {
                "type": "library",
                "bom-ref": url,
                "name": name,
                "version": pin["version"],
                "purl": url,
                "externalReferences": distributions,
            }
        )
    return found


def bill(name: str, version: str, lock: Path, seconds: int) -> dict[str, Any]:
    """The bill of an image.

    Args:
        name: the image's name.
        lock: the lock that it is installed from.
        seconds: time of the release's commit, so that the same commit has the same bill.
    """
    subject = f"pkg:generic/{name}@{version}"
    packages = components(lock)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'{subject}#{lock.name}#{seconds}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z"),
            "component": {"type": "application", "bom-ref": subject, "name": name, "version": version},
        },
        "components": packages,
        "dependencies": [{"ref": subject, "dependsOn": [package["bom-ref"] for package in packages]}],
    }
