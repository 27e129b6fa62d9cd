"""A provider and an engine are declared once, and everything derived from the declarations has them all."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from ragstore_client import AsyncClient
from ragstore_gateway.embeddings import builtin
from ragstore_gateway.embeddings.providers.declared import PROVIDERS
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.engine import Adapter
from ragstore_gateway.engines.engines import ENGINES
from ragstore_gateway.secrets.secret_references import SecretReferences

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

EDIT = '''
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path

def declare(name, before, entry, imported):
    """Import a module as it is with one more entry in its list."""
    spec = find_spec(name)
    source = Path(spec.origin).read_text()
    assert source.count(before) == 1
    module = module_from_spec(spec)
    sys.modules[name] = module
    future = "from __future__ import annotations\\n"
    source = source.replace(before, before + entry).replace(future, future + imported)
    exec(compile(source, spec.origin, "exec"), vars(module))
'''

CHECK = """
import msgspec
from ragstore_gateway.configurations.json_schema import KNOWLEDGE_BASE_CHOICES, json_schema
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.openai_vector_stores.schemas import NewVectorStore

schema = json_schema(KnowledgeBase, KNOWLEDGE_BASE_CHOICES)

def assert_selectable(field, name, struct):
    msgspec.convert({"name": "tea", field: name}, KnowledgeBase)
    assert name in schema["properties"][field]["enum"]
    assert struct in schema["$defs"]
    assert any(each["if"]["properties"].get(field) == {"const": name} for each in schema["allOf"])
"""

PROVIDER = """
from ragstore_gateway.embeddings.providers.cohere import CohereProvider
from ragstore_gateway.embeddings.providers.provider import Parameters, ProviderDeclaration

class VoyageParameters(Parameters, frozen=True, kw_only=True):
    model: str = "voyage-3"
    api_key: str = ""
    base_url: str = "http://localhost"
    dimensions: int | None = None

VOYAGE = ProviderDeclaration("voyage", VoyageParameters, CohereProvider)
"""

USE_PROVIDER = """
declare(
    "ragstore_gateway.embeddings.providers.declared",
    "    COHERE,\\n",
    "    VOYAGE,\\n",
    "from voyage import VOYAGE\\n",
)
"""

CHECK_PROVIDER = """
from ragstore_gateway.embeddings.embeddings import EmbeddingLimits, Embeddings
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.secrets.secret_references import SecretReferences
from ragstore_gateway.settings import load

assert_selectable("embeddingProvider", "voyage", "VoyageParameters")
msgspec.convert({"embedding_provider": "voyage"}, NewVectorStore)
settings = load({"RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "voyage"})
embeddings = Embeddings(SecretReferences({}), Connections(), EmbeddingLimits())
embeddings.check(settings.provider, {})
print(embeddings.set_default(settings.provider, {}).name)
"""

ENGINE = """
from ragstore_gateway.engines.engine import Engine
from ragstore_gateway.engines.store_parameters import Parameters

class WeaviateParameters(Parameters, frozen=True, kw_only=True, rename="camel"):
    port: int = 8080

WEAVIATE = Engine("weaviate", WeaviateParameters, "weaviate_store")
"""

ADAPTER = """
from ragstore_gateway.engines.engine import Adapter
from ragstore_gateway.engines.in_memory_store import InMemoryStore
from ragstore_gateway.engines.shared_client import SharedClient

async def connected(values): return {}

def connect(parameters, secrets, timeout_seconds):
    return SharedClient(connected, connected, {}, secrets)

def opened(client, parameters, collection, dimension, timeout_seconds):
    print(parameters.port)
    return InMemoryStore({}, collection, dimension)

ADAPTER = Adapter(connect, opened)
"""

USE_ENGINE = """
declare(
    "ragstore_gateway.engines.engines",
    '    Engine(IN_MEMORY, InMemoryParameters),\\n',
    "    WEAVIATE,\\n",
    "from weaviate_engine import WEAVIATE\\n",
)
"""

CHECK_ENGINE = """
import asyncio
from ragstore_client import AsyncClient
from ragstore_gateway.secrets.secret_references import SecretReferences
from ragstore_gateway.engines.assembly import Engines

assert_selectable("storeType", "weaviate", "WeaviateParameters")
msgspec.convert({"store_type": "weaviate"}, NewVectorStore)
stores = Engines(SecretReferences({}), AsyncClient("http://127.0.0.1:1", api_key=None))
stores.check("weaviate", {"port": "1234"})
store = stores.open("weaviate", {"port": "1234"}, "kb-1", 4)
assert "weaviate_store" not in sys.modules
print(asyncio.run(store.count()))
"""


def run(folder: Path, *parts: str) -> str:
    """The output of a program in a new process, in which the modules of a folder can be imported."""
    program = f"import sys; sys.path.insert(0, {str(folder)!r})\n" + "\n".join(parts)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.process
def test_a_provider_of_a_new_module_needs_one_entry_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "voyage.py").write_text(PROVIDER)
    assert run(tmp_path, EDIT, USE_PROVIDER, CHECK, CHECK_PROVIDER) == "voyage/voyage-3\n"


@pytest.mark.process
def test_an_engine_of_a_new_module_needs_one_entry_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "weaviate_engine.py").write_text(ENGINE)
    (tmp_path / "weaviate_store.py").write_text(ADAPTER)
    assert run(tmp_path, EDIT, USE_ENGINE, CHECK, CHECK_ENGINE) == "1234\n0\n"


@pytest.mark.parametrize("module", [each.module for each in ENGINES.values() if each.module])
def test_the_module_of_an_engine_has_its_adapter(module: str) -> None:
    assert isinstance(import_module(module).ADAPTER, Adapter)


@pytest.mark.parametrize("name", [name for name, each in ENGINES.items() if not each.module])
async def test_an_engine_without_a_module_is_opened_by_the_gateway_itself(name: str) -> None:
    async with AsyncClient("http://127.0.0.1:1", api_key=None) as client:
        assert Engines(SecretReferences({}), client).open(name, {}, "kb-1", 4) is not None


def test_the_declared_extras_are_those_of_the_distribution() -> None:
    declared = {each.extra for each in PROVIDERS.values()} | {each.extra for each in ENGINES.values()}
    project = tomllib.loads((ROOT / "gateway" / "pyproject.toml").read_text())["project"]
    declared |= {each.extra for each in builtin.MODELS.values()}
    # `embedded` belongs to the store, `office` to formats, `sentence-transformers` to models of the provider `local`,
    # `conformance` to tests, `mcp` to agents.
    assert declared - {""} | {"conformance", "embedded", "mcp", "office", "sentence-transformers"} == set(
        project["optional-dependencies"]
    )


def test_the_page_lists_every_engine_with_its_extra() -> None:
    rows = [line for line in (DOCS / "engines.md").read_text().splitlines() if line.startswith("| `")]
    for engine in ENGINES.values():
        [row] = [row for row in rows if row.startswith(f"| `{engine.name}`") and len(row.split(" | ")) == 4]
        assert not engine.extra or f"extra `{engine.extra}`" in row
