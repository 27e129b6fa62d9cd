"""Reads the Dockerfile, and carries out in a folder what a container engine would do with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("/opt/ragstore", "/build", "/usr/local", "/data")
"""The image's folders that the Dockerfile names. Each lies below the image's folder here."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: its name in capitals, and what follows it."""

    name: str
    value: str


@dataclass
class Stage:
    """A stage of the build.

    Attributes:
        base: the image or stage that it starts from.
        name: its own name; empty for the last.
        instructions: what follows FROM.
    """

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        """What the instructions of one name say."""
        return [instruction.value for instruction in self.instructions if instruction.name == name]

    def value(self, name: str) -> str:
        """What the last instruction of a name says: the one that counts."""
        return self.values(name)[-1]


def instructions() -> list[Instruction]:
    """The Dockerfile's instructions, without comments."""
    with (ROOT / "Dockerfile").open() as file:
        structure = DockerfileParser(fileobj=file).structure
    read = [Instruction(found["instruction"], found["value"]) for found in structure]
    return [instruction for instruction in read if instruction.name != "COMMENT"]


def arguments() -> dict[str, str]:
    """The build arguments before the first stage, with their defaults."""
    found = {}
    for instruction in instructions():
        if instruction.name == "FROM":
            break
        name, _, default = instruction.value.partition("=")
        found[name] = default
    return found


def stages() -> list[Stage]:
    """The Dockerfile's stages."""
    found: list[Stage] = []
    for instruction in instructions():
        if instruction.name == "FROM":
            base, _, name = instruction.value.partition(" AS ")
            found.append(Stage(base, name))
        elif found:
            found[-1].instructions.append(instruction)
    return found


def assignments(value: str) -> Iterator[tuple[str, str]]:
    """The pairs of an ENV or LABEL instruction."""
    for name, quoted, plain in re.findall(r'([\w.]+)=(?:"([^"]*)"|(\S+))', value):
        yield name, quoted or plain


@dataclass
class Engine:
    """Carries instructions out below a folder, which stands for the image's root.

    A fresh Python environment stands for what the base image has in /usr/local. Left out is what needs root or changes
    the system: adding the user, and taking pip out of the base image.

    Attributes:
        folder: the folder.
        store: the build argument STORE.
        environ: the variables in force.
        workdir: the image's working directory in force.
    """

    folder: Path
    store: str
    environ: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"

    def base_image(self) -> None:
        """Lay what the base image has."""
        subprocess.run([sys._base_executable, "-m", "venv", str(self.below("/usr/local"))], check=True)  # type: ignore[attr-defined]  # venv uses it, too
        self.environ = {"PATH": f"{self.below('/usr/local/bin')}:/usr/bin:/bin"}

    def below(self, path: str) -> Path:
        """Where a path of the image lies."""
        return self.folder / path.lstrip("/")

    def resolved(self, text: str) -> str:
        """A text with the argument and the image's paths filled in."""
        text = text.replace("${STORE}", self.store)
        places = "|".join(map(re.escape, PLACES))
        return re.sub(rf"(?<![\w/.])({places})(?![\w-])", lambda found: str(self.below(found[1])), text)

    def carry_out(self, stage: Stage) -> None:
        """Carry out a stage's WORKDIR, ENV, COPY of the context, and RUN."""
        for instruction in stage.instructions:
            match instruction.name:
                case "WORKDIR":
                    self.workdir = instruction.value
                    self.below(self.workdir).mkdir(parents=True, exist_ok=True)
                case "ENV":
                    self.set(instruction.value)
                case "COPY":
                    self.copy(instruction.value)
                case "RUN":
                    self.run(instruction.value)

    def set(self, value: str) -> None:
        """Carry out ENV. What the machine has of pip's cache is used: it changes the time, not the result."""
        for name, given in assignments(value):
            if name == "PATH":
                self.environ[name] = ":".join(self.resolved(part) for part in given.split(":"))
            elif name != "PIP_NO_CACHE_DIR":
                self.environ[name] = self.resolved(given)

    def copy(self, value: str) -> None:
        """Carry out COPY from the context."""
        *sources, target = self.resolved(value).split()
        for source in sources:
            place = self.below(self.workdir) / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)

    def run(self, command: str) -> None:
        """Carry out RUN, in the shell that Docker takes."""
        subprocess.run(
            ["/bin/sh", "-c", self.resolved(command)],
            cwd=self.below(self.workdir),
            env=self.environ | settings_of_pip(),
            check=True,
            capture_output=True,
        )

    def start(self, command: str, environ: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start what a CMD in exec form says."""
        with log.open("wb") as output:
            return subprocess.Popen(
                json.loads(command),
                cwd=self.below(self.workdir),
                env={**self.environ, **environ},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def files(self) -> dict[str, int]:
        """Every file of /opt/ragstore with the time of its last change."""
        place = self.below("/opt/ragstore")
        return {str(file.relative_to(place)): file.lstat().st_mtime_ns for file in place.rglob("*") if file.is_file()}


def settings_of_pip() -> dict[str, str]:
    """What the machine says about where packages come from, and its home, which has more of that."""
    names = ("HOME", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    return {name: value for name, value in os.environ.items() if name in names or name.startswith("PIP_")}
