"""Reads a Dockerfile, and runs its instructions in a folder, as a container engine would."""

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
DOCKERFILE = ROOT / "Dockerfile"
GATEWAY_DOCKERFILE = ROOT / "gateway/Dockerfile"
IMAGE_FOLDERS = ("/opt/ragstore", "/build", "/usr/local", "/data")
"""The folders of the image that the Dockerfile names. Each is below the folder of the engine here."""


@dataclass(frozen=True)
class Instruction:
    """An instruction: its name in capitals, and its value."""

    name: str
    value: str


@dataclass
class Stage:
    """A stage of the build.

    Attributes:
        base: the image or stage of its FROM.
        name: its own name; empty for the last.
        instructions: the instructions after FROM.
    """

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        """The values of all instructions of a name."""
        return [instruction.value for instruction in self.instructions if instruction.name == name]

    def value(self, name: str) -> str:
        """The value of the last instruction of a name, which is in force."""
        return self.values(name)[-1]


def instructions(dockerfile: Path = DOCKERFILE) -> list[Instruction]:
    """The instructions of a Dockerfile, without comments."""
    with dockerfile.open() as file:
        structure = DockerfileParser(fileobj=file).structure
    read = [Instruction(found["instruction"], found["value"]) for found in structure]
    return [instruction for instruction in read if instruction.name != "COMMENT"]


def arguments(dockerfile: Path = DOCKERFILE) -> dict[str, str]:
    """The build arguments before the first stage, with their defaults."""
    found = {}
    for instruction in instructions(dockerfile):
        if instruction.name == "FROM":
            break
        name, _, default = instruction.value.partition("=")
        found[name] = default
    return found


def stages(dockerfile: Path = DOCKERFILE) -> list[Stage]:
    """The stages of a Dockerfile."""
    found: list[Stage] = []
    for instruction in instructions(dockerfile):
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
    """Runs instructions below a folder, which represents the image's root.

    A new Python environment represents /usr/local of the base image. Instructions that need root or change the system
    are not run: adding the user, and removing pip from the base image.

    Attributes:
        store: the build argument STORE, which the gateway's Dockerfile does not have.
        compiles: whether pip compiles the packages, as in the image. That is most of its time: the gateway's image has
            9,000 modules, of which its start imports a part. Otherwise the first start compiles what it imports.
        environ: the variables in force.
        workdir: the image's working directory in force.
    """

    folder: Path
    store: str
    compiles: bool = True
    environ: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"

    def base_image(self) -> None:
        """Create the content of the base image."""
        subprocess.run([sys._base_executable, "-m", "venv", str(self.below("/usr/local"))], check=True)  # type: ignore[attr-defined]  # venv uses it, too
        self.environ = {"PATH": f"{self.below('/usr/local/bin')}:/usr/bin:/bin"}

    def below(self, path: str) -> Path:
        """The path of a file of the image."""
        return self.folder / path.lstrip("/")

    def resolved(self, text: str) -> str:
        """A text with the build argument and the image's paths replaced."""
        text = text.replace("${STORE}", self.store)
        folders = "|".join(map(re.escape, IMAGE_FOLDERS))
        return re.sub(rf"(?<![\w/.])({folders})(?![\w-])", lambda found: str(self.below(found[1])), text)

    def build(self, stage: Stage) -> None:
        """Run a stage's WORKDIR, ENV, COPY from the context, and RUN."""
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
        """Run ENV. pip's cache is used, contrary to the Dockerfile: it changes the duration, not the result."""
        for name, given in assignments(value):
            if name == "PATH":
                self.environ[name] = ":".join(self.resolved(part) for part in given.split(":"))
            elif name == "PYTHONDONTWRITEBYTECODE" and not self.compiles:
                self.environ["PYTHONPYCACHEPREFIX"] = str(self.below("/tmp/compiled"))
            elif name != "PIP_NO_CACHE_DIR":
                self.environ[name] = self.resolved(given)

    def copy(self, value: str) -> None:
        """Run COPY from the context."""
        *sources, target = self.resolved(value).split()
        for source in sources:
            path = self.below(self.workdir) / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, path, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                path.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, path)

    def run(self, command: str) -> None:
        """Run RUN, in the shell that Docker uses."""
        subprocess.run(
            ["/bin/sh", "-c", self.resolved(command)],
            cwd=self.below(self.workdir),
            env=self.environ | settings_of_pip() | ({} if self.compiles else {"PIP_COMPILE": "0"}),
            check=True,
            capture_output=True,
        )

    def start(self, command: str, environ: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a CMD in exec form."""
        with log.open("wb") as output:
            return subprocess.Popen(
                json.loads(command),
                cwd=self.below(self.workdir),
                env={**self.environ, **environ},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def files(self) -> dict[str, int]:
        """All files of /opt/ragstore with their modification times."""
        root = self.below("/opt/ragstore")
        return {str(file.relative_to(root)): file.lstat().st_mtime_ns for file in root.rglob("*") if file.is_file()}


def built_image(folder: Path, dockerfile: Path = DOCKERFILE, store: str = "", *, compiles: bool = True) -> Engine:
    """Build an image of two stages, and set what its last stage sets.

    Args:
        folder: represents the image's root.
        store: the build argument STORE.
        compiles: see `Engine`.
    """
    build, image = stages(dockerfile)
    engine = Engine(folder, store, compiles)
    engine.base_image()
    engine.build(build)
    # The COPY of the last stage needs nothing: the environment is in its final folder.
    engine.environ = {}
    engine.set(image.value("ENV"))
    engine.workdir = image.value("WORKDIR")
    return engine


def settings_of_pip() -> dict[str, str]:
    """The machine's settings for package indexes, and its home folder, which has more of them."""
    names = ("HOME", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    return {name: value for name, value in os.environ.items() if name in names or name.startswith("PIP_")}
