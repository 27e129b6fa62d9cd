"""Render the Kubernetes overlays into a folder: `python -m scripts.render_manifests FOLDER`.

This uses `kustomize` from the system, or `kubectl`, which contains it. Version 5 of kustomize is needed: kubectl 1.27
or newer. Debian 12 has 1.20 in its package kubernetes-client, which cannot read the overlays. Without it, a notice is
printed and the complete manifests among the sources are copied instead, so that they can be validated one by one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

KUBERNETES: Final = Path(__file__).resolve().parents[1] / "k8s"
MIN_VERSION: Final = 5
NOT_CHECKED: Final = "manifests that need no patch are validated; patches and checkov's rules are not"


@cache
def kustomize() -> tuple[str, ...]:
    """The command that renders a kustomization; empty if the system has none that is new enough."""
    for command, version in (
        (("kustomize", "build"), ("kustomize", "version")),
        (("kubectl", "kustomize"), ("kubectl", "version", "--client", "--output=json")),
    ):
        if shutil.which(command[0]) is not None and _major(_output(version)) >= MIN_VERSION:
            return command
    return ()


def render(folder: Path) -> bytes:
    """Render a kustomization.

    Args:
        folder: the folder of its `kustomization.yaml`.

    Returns:
        The manifests, as YAML.

    Raises:
        subprocess.CalledProcessError: it cannot be rendered.
    """
    return subprocess.run([*kustomize(), str(folder)], capture_output=True, check=True).stdout


def rendered_folders() -> list[Path]:
    """The folders that are deployed: the overlays, the gateway, and the monitoring."""
    return [*sorted((KUBERNETES / "overlays").iterdir()), KUBERNETES / "gateway", KUBERNETES / "monitoring"]


def plain_manifests() -> list[Path]:
    """The sources that are complete manifests: what the kustomizations list as resources, without their patches."""
    found: list[Path] = []
    components = sorted((KUBERNETES / "components").iterdir())
    for folder in (KUBERNETES / "base", *components, *rendered_folders()):
        kustomization: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
        found += [folder / name for name in kustomization.get("resources", []) if (folder / name).is_file()]
    return found


def _output(command: tuple[str, ...]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _major(version: str) -> int:
    """The major version of kustomize; 0 if it is unknown, as in kubectl before 1.24."""
    if version.startswith("{"):
        version = str(json.loads(version).get("kustomizeVersion", ""))
    found = re.search(r"v(\d+)\.", version)
    return int(found[1]) if found else 0


def main() -> None:
    """Fill the folder that the command line names."""
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if kustomize():
        for folder in rendered_folders():
            (target / f"{folder.name}.yaml").write_bytes(render(folder))
        return
    found = shutil.which("kustomize") or shutil.which("kubectl")
    reason = f"{found} is too old (kustomize {MIN_VERSION} is needed)" if found else "kubectl not found"
    print(f"{reason}: skipping the rendering of the overlays: {NOT_CHECKED}")
    for manifest in plain_manifests():
        shutil.copy(manifest, target / f"plain-{manifest.parent.name}-{manifest.name}")


if __name__ == "__main__":
    main()
