"""Files of models that an installed package has: read as data, and verified by hash."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path


class ModelDamaged(Exception):
    """A file of the model is missing or differs from the file that this version was tested with."""


def verified(folder: Path, file: tuple[str, str]) -> bytes:
    """Read a file of a model.

    Args:
        file: its path in the folder, and its SHA-256.

    Raises:
        ModelDamaged: it is missing, or its hash is another.
    """
    name, sha256 = file
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise ModelDamaged(f"{name} of the built-in model cannot be read: {error.strerror}") from None
    return check_hash(content, name, sha256)


def check_hash(content: bytes, name: str, sha256: str) -> bytes:
    """Check the content of a file of a model.

    Returns:
        The content.

    Raises:
        ModelDamaged: its hash is another.
    """
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ModelDamaged(f"{name} of the built-in model differs from the tested one")
    return content


def package_folder(package: str) -> Path:
    """The folder of an installed package, which is not imported.

    Raises:
        ModelDamaged: it is not installed.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModelDamaged(f"The package {package}, which has the built-in model's files, is not installed")
    return Path(spec.origin).parent
