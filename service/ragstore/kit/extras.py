"""Optional dependencies: which extra of a distribution installs them."""

from __future__ import annotations

import importlib.util


class MissingExtra(Exception):
    """An extra is not installed. The text is one line and says how to install it."""


def require_extra(extra: str, feature: str, *modules: str) -> None:
    """Check that the modules of an extra are installed, without importing them.

    Args:
        extra: distribution and extra, such as `ragstore[transfer]`.
        feature: what needs them, for the message.
        modules: names of modules.

    Raises:
        MissingExtra: one is not installed.
    """
    missing = [name for name in modules if not _is_installed(name)]
    if missing:
        raise MissingExtra(f"{feature} needs {missing[0]}, which is not installed: pip install '{extra}'")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it belongs to
        return False
