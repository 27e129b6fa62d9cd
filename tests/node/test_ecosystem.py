"""The packed Node client in other runtimes, module systems and compilers than its own."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.node_build import CLIENT, build, run, run_in
from tests.support.pages import blocks_of
from tests.support.servers import free_port, running, start_service

ECOSYSTEM: Final = Path(__file__).parent / "ecosystem"
TOOLS: Final = ECOSYSTEM / "node_modules"
TSC: Final = CLIENT / "node_modules" / ".bin" / "tsc"
README: Final = "clients/node/README.md"

STRICT: Final[dict[str, object]] = {
    "strict": True,
    "noUncheckedIndexedAccess": True,
    "exactOptionalPropertyTypes": True,
    "target": "ES2022",
    "lib": ["ES2023"],
    "types": ["node"],
    "experimentalDecorators": True,
    "emitDecoratorMetadata": True,
    "skipLibCheck": True,
}
COMPILERS: Final[dict[str, dict[str, object]]] = {
    "node10": {"module": "CommonJS", "moduleResolution": "node10", "esModuleInterop": True},
    "node16, CommonJS": {"module": "Node16", "moduleResolution": "Node16"},
    "nodenext, ES modules": {"module": "NodeNext", "moduleResolution": "NodeNext"},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the packed client is installed, as `npm install` does it."""
    build()
    folder = tmp_path_factory.mktemp("project")
    run("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder))
    modules = folder / "node_modules"
    package = modules / "@ragstore" / "client"
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        packed.extractall(folder, filter="data")
    package.parent.mkdir(parents=True)
    (folder / "package").rename(package)
    for entry in (CLIENT / "node_modules").iterdir():
        if not entry.name.startswith("."):
            (modules / entry.name).symlink_to(entry)
    (folder / "package.json").write_text(json.dumps({"dependencies": {"@ragstore/client": "*"}}))
    for script in ("scenario.mjs", "in_process.mjs"):
        shutil.copy(ECOSYSTEM / script, folder)
    return folder


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of the scenario: a service, and a URL without one."""
    with running(start_service(tmp_path_factory.mktemp("ecosystem"), {})) as served:
        yield {"RAGSTORE_URL": served.url, "CLOSED_URL": f"http://127.0.0.1:{free_port()}"}


APPLICATION: Final = (
    "ragstore,chroma chroma the boiler 0 a stored function NotFound RagstoreVectorStore "
    "Searches a knowledge base (house)."
)

EXPECTED: Final = {
    "stored": 299,
    "failed": ["7 d7 BadRequest"],
    "nearest": "d42 Passage 42: ä",
    "listed": 300,
    "count": 9,
    "missing": "document_not_found",
    "refused": "true,true,true",
}


@pytest.mark.parametrize("runtime", ["node", "bun", "deno"])
def test_the_client_runs_in(runtime: str, project: Path, environ: dict[str, str]) -> None:
    commands = {
        "node": ["node"],
        "bun": [str(next(TOOLS.glob("@oven/bun-*/bin/bun")))],
        "deno": [str(TOOLS / ".bin" / "deno"), "run", "--quiet", "--allow-net", "--allow-env"],
    }
    printed = run_in(project, *commands[runtime], "in_process.mjs", **environ)
    assert json.loads(printed) == EXPECTED


def test_the_client_runs_in_a_browser(project: Path, environ: dict[str, str], tmp_path: Path) -> None:
    printed = run_in(ECOSYSTEM, "node", "in_browser.mjs", str(project), TMPDIR=str(tmp_path), **environ)
    # A browser does not say why a connection failed.
    assert json.loads(printed) == {**EXPECTED, "refused": "true,false,true", "nodes": []}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_application_compiles_with(compiler: str, project: Path) -> None:
    folder = project / compiler.replace(", ", "-").replace(" ", "-")
    folder.mkdir()
    shutil.copy(ECOSYSTEM / "types" / "application.ts", folder)
    kind = "commonjs" if compiler in ("node10", "node16, CommonJS") else "module"
    (folder / "package.json").write_text(json.dumps({"type": kind}))
    options = {**STRICT, **COMPILERS[compiler], "outDir": "out", "rootDir": "."}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.ts"]}))
    run(str(TSC), "-p", str(folder))
    printed = run_in(folder, "node", "out/application.js")
    assert printed == f"{APPLICATION}\n"


def test_jest_loads_the_client(project: Path) -> None:
    folder = project / "jest"
    folder.mkdir()
    shutil.copy(ECOSYSTEM / "types" / "client.test.js", folder)
    (folder / "package.json").write_text(
        json.dumps({"jest": {"testEnvironment": str(TOOLS / "jest-environment-node")}})
    )
    run_in(folder, str(TOOLS / ".bin" / "jest"), "--rootDir", str(folder), "--ci", "--watchman=false", "--no-cache")


def test_the_examples_of_the_page_compile_under_strict(project: Path) -> None:
    folder = project / "readme"
    folder.mkdir()
    blocks = [block for block in blocks_of(README) if block.language == "js"]
    assert len(blocks) > 3
    for block in blocks:
        (folder / f"line-{block.line}.mts").write_text(block.code)
    options = {**STRICT, **COMPILERS["nodenext, ES modules"], "noEmit": True, "noUncheckedIndexedAccess": False}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.mts"]}))
    run(str(TSC), "-p", str(folder))


def test_the_declarations_are_checked_as_a_library(project: Path) -> None:
    folder = project / "declarations"
    folder.mkdir()
    names = ("client", "client/rag", "client/ai")
    lines = [
        *(f'export * from "@ragstore/{name}";' for name in names),
        'export * as gateway from "@ragstore/client/gateway";',
    ]
    (folder / "index.mts").write_text("\n".join(lines))
    modules = COMPILERS["nodenext, ES modules"]
    library: dict[str, object] = {
        "skipLibCheck": False,
        "skipDefaultLibCheck": True,
        "types": [],
        "lib": ["ES2023", "DOM"],
    }
    options = {**STRICT, **modules, **library, "noEmit": True}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.mts"]}))
    run(str(TSC), "-p", str(folder))


def test_the_package_imports_no_module_of_node(project: Path) -> None:
    sources = [*(project / "node_modules" / "@ragstore" / "client" / "dist").rglob("*.js")]
    assert len(sources) > 40
    assert [path for path in sources if "node:" in path.read_text() or 'require("os")' in path.read_text()] == []
