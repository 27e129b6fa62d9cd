"""Secrets by reference: `${env:NAME}`, `${file:PATH}`, `${vault:PATH}`.

A configuration holds references and never secrets. They are resolved when a request is sent, so that a rotated secret
is used without a restart. A `Secret` shows nothing of itself, and no error here contains more than the reference.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore_gateway.errors import SecretUnavailable
from ragstore_gateway.settings import variable

SETTING: Final = variable("secret_variables")
"""The setting that names the variables which references may read."""

REFERENCE: Final = re.compile(r"\$\{([a-z]+):([^{}]{1,512})\}")
SCHEMES: Final = ("env", "file", "vault", "eddivault")
MAX_SECRET_BYTES: Final = 64 * 1024
OWN_VARIABLES: Final = "RAGSTORE_"
"""Prefix of variables that no reference may read: they hold the keys of the gateway itself."""

NO_SECRETS: Final = frozenset({"PATH", "HOME"})
"""Variables that no reference may read, whatever the setting says: they describe the machine."""


class Secret:
    """A resolved secret. Its text form is a mask.

    Args:
        value: the secret.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__


class SecretSource(Protocol):
    """Reads the secrets of one kind of reference."""

    async def read(self, name: str) -> str:
        """Read a secret.

        Args:
            name: what follows the colon of a reference.

        Raises:
            SecretUnavailable: there is none, or it cannot be read.
        """

    def never_readable(self, name: str) -> str:
        """Why no later change can make a secret readable by this process.

        Args:
            name: what follows the colon of a reference.

        Returns:
            One sentence; empty if the secret may be readable, now or later.
        """


class EnvironmentSource:
    """Secrets in the environment of the process.

    Args:
        allowed: patterns of the variables that may be read, such as `OPENAI_*`.
        environ: the variables; the process's own when None.
    """

    def __init__(self, allowed: tuple[str, ...] = ("*",), environ: Mapping[str, str] | None = None) -> None:
        self._allowed = allowed
        self._environ = os.environ if environ is None else environ

    async def read(self, name: str) -> str:
        """Read a variable; see `SecretSource`."""
        if reason := self.never_readable(name):
            raise SecretUnavailable(reason)
        return self._environ[name]

    def never_readable(self, name: str) -> str:
        """Whether the variable is not allowed, or not set; see `SecretSource`."""
        if name.startswith(OWN_VARIABLES) or name in NO_SECRETS:
            return f"The variable of ${{env:{name}}} may not be used"
        if not any(fnmatchcase(name, each) for each in self._allowed):
            return f"The variable of ${{env:{name}}} may not be used: {SETTING} does not name it"
        return "" if self._environ.get(name) else f"The variable of ${{env:{name}}} is not set"


class FileSource:
    """Secrets in files below one folder, as Kubernetes and Docker mount them. Links must not lead out of it."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    async def read(self, name: str) -> str:
        """Read a file; see `SecretSource`."""
        return await asyncio.to_thread(self._read, name)

    def never_readable(self, name: str) -> str:
        """Whether the path leads out of the folder; see `SecretSource`. The file may be mounted later."""
        path = PurePosixPath(name)
        return f"The file of ${{file:{name}}} is not in the folder of secrets" if _leads_out(path) else ""

    def _read(self, name: str) -> str:
        error = SecretUnavailable(f"The file of ${{file:{name}}} cannot be read, or is not in the folder of secrets")
        try:
            root = self._folder.resolve(strict=True)
            path = (root / name).resolve(strict=True)
            if not path.is_relative_to(root):
                raise error
            # The path is resolved; a link or a pipe that replaced the file since is refused here.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise error
                content = file.read(MAX_SECRET_BYTES + 1)
            text = content.decode().rstrip("\r\n")
        except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links
            raise error from None
        if not text or len(content) > MAX_SECRET_BYTES:
            raise error
        return text


def _leads_out(path: PurePosixPath) -> bool:
    return path.is_absolute() or ".." in path.parts or "\0" in str(path)


class SecretReferences:
    """Checks and resolves references.

    Args:
        sources: the sources by scheme. A scheme without a source is known but not configured.
        allow_literals: whether a configuration may contain a secret itself.
    """

    def __init__(self, sources: Mapping[str, SecretSource], *, allow_literals: bool = False) -> None:
        self._sources = dict(sources)
        self._allow_literals = allow_literals

    def check(self, text: str, path: str) -> None:
        """Check a secret of a configuration. Whether it exists is not checked; see `check_readable`.

        Args:
            text: a reference.
            path: path of the field, for the error.

        Raises:
            InvalidRequest: it is a literal secret, or its scheme cannot be resolved here.
        """
        found = REFERENCE.fullmatch(text)
        if found is None:
            if self._allow_literals and "${" not in text:
                return
            raise InvalidRequest.at(path, "Must be a reference such as ${env:NAME}, never the secret itself")
        self._check_scheme(found[1], path)

    def check_template(self, text: str, path: str) -> None:
        """Check the references within a text, such as `Bearer ${env:NAME}`.

        Args:
            path: path of the field, for the error.

        Raises:
            InvalidRequest: the scheme of one cannot be resolved here.
        """
        for found in REFERENCE.finditer(text):
            self._check_scheme(found[1], path)

    def check_readable(self, texts: Mapping[str, object], path: str) -> None:
        """Check the references within texts of a configuration that is written.

        A secret that may exist later is accepted. A variable that is not set stays so until this process ends.

        Args:
            texts: the texts by field, and other values.
            path: path of the object that has the fields, for errors.

        Raises:
            InvalidRequest: this process can never read a secret; the error names each path.
        """
        errors = [
            FieldError(f"{path}.{name}", reason)
            for name, text in texts.items()
            if isinstance(text, str)
            for scheme, secret in REFERENCE.findall(text)
            if scheme in self._sources and (reason := self._sources[scheme].never_readable(secret))
        ]
        if errors:
            raise InvalidRequest("; ".join(f"{each.message}: {each.path}" for each in errors), errors)

    async def resolve(self, text: str) -> Secret:
        """Replace the references in a text by their secrets.

        Args:
            text: a text that was checked.

        Raises:
            SecretUnavailable: a secret cannot be read.
        """
        parts: list[str] = []
        end = 0
        for found in REFERENCE.finditer(text):
            source = self._sources.get(found[1])
            if source is None:
                raise SecretUnavailable(f"${{{found[1]}:…}} is not configured")
            parts += [text[end : found.start()], await source.read(found[2])]
            end = found.end()
        return Secret("".join([*parts, text[end:]]))

    async def header(self, text: str) -> str:
        """Resolve a text for use in a header.

        Args:
            text: a text that was checked.

        Raises:
            SecretUnavailable: a secret cannot be read, or has characters that a header cannot have.
        """
        value = (await self.resolve(text)).reveal()
        if not all(" " <= character <= "~" for character in value):
            reference = text if REFERENCE.fullmatch(text) else "of the configuration"
            raise SecretUnavailable(f"The secret {reference} has characters that a header cannot have")
        return value

    def _check_scheme(self, scheme: str, path: str) -> None:
        if scheme not in SCHEMES:
            raise InvalidRequest.at(path, f"A reference begins with one of {', '.join(SCHEMES)}")
        if scheme not in self._sources:
            raise InvalidRequest.at(path, f"References to {scheme} are not configured in this gateway")
