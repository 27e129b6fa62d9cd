"""Write the address of the runbooks into the alerts, and the alerts for the Prometheus operator.

`python -m scripts.prometheus_rules [--check] [--pages URL]`. The address is `documentation` of `[tool.ragstore]` in
pyproject.toml: the address of the published pages. The script uses the standard library only.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.package_metadata import Addresses

ROOT: Final = Path(__file__).resolve().parents[1]
MONITORING: Final = Path("k8s/monitoring")

_HEAD: Final = """\
# Generated from rules.yaml by `make generate`: the same rules for the Prometheus operator.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ragstore
  labels:
    app.kubernetes.io/name: ragstore
    app.kubernetes.io/part-of: ragstore
spec:
"""

_RUNBOOK: Final = re.compile(r"(?<=runbook_url: )\S+(?=/monitoring\.html#)")


def pages_address() -> str:
    """The address of the published pages, without a slash at its end."""
    return Addresses.read().documentation


def files(pages: str) -> dict[Path, str]:
    """The content of each file, by its path in the repository.

    Args:
        pages: the address of the published pages.
    """

    def written(name: str) -> str:
        return _RUNBOOK.sub(lambda _: pages, (ROOT / MONITORING / name).read_text())

    rules = written("rules.yaml")
    return {
        MONITORING / "rules.yaml": rules,
        MONITORING / "rules.test.yaml": written("rules.test.yaml"),
        MONITORING / "prometheusrule.yaml": _HEAD + textwrap.indent(rules[rules.index("groups:") :], "  "),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Args:
        arguments: the command line; the process's own by default.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a file is out of date")
    parser.add_argument("--pages", help="another address of the pages than that of pyproject.toml")
    parser.add_argument("--output", type=Path, default=ROOT, help="folder to write to (default: this repository)")
    options = parser.parse_args(arguments)
    for path, content in files((options.pages or pages_address()).rstrip("/")).items():
        if options.check and (ROOT / path).read_text() != content:
            sys.exit(f"{path} is out of date: make generate")
        if not options.check:
            (options.output / path).parent.mkdir(parents=True, exist_ok=True)
            (options.output / path).write_text(content)


if __name__ == "__main__":
    main()
