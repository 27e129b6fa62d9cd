"""A loop that embeds texts and writes them to Chroma, or to LangChain over Chroma, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

LOOP: Final = """
import json, sys, time
from urllib.request import Request, urlopen

kind, folder, url, path = sys.argv[1:]
texts = json.loads(open(path).read())

def chunks_of(text):
    return [text[start : start + 400] for start in range(0, len(text), 400)]

def embed(batch):
    body = json.dumps({"inputs": batch}).encode()
    return json.loads(urlopen(Request(url + "/embed", body, {"Content-Type": "application/json"})).read())

def metadata_of(number):
    # The metadata of a chunk of a knowledge base.
    return {
        "document_id": "b2a7e5f0-7a0e-4c55-9d57-2f0f1f6f1d11", "document_name": "large",
        "revision": "6c0d6f56-2f1f-4c0b-8a3e-51c7d2f4b0aa", "chunk_index": number, "char_start": 400 * number,
        "char_end": 400 * number + 400, "token_count": 97, "content_hash": "a" * 64,
        "ingested_at": "2026-11-28T12:00:00.000000Z",
    }

if kind.startswith("chroma"):
    import chromadb
    client = chromadb.PersistentClient(folder)
    hnsw = {"space": "cosine", "max_neighbors": 64, "ef_construction": 300, "ef_search": 400}
    collection = client.create_collection("texts", configuration={"hnsw": hnsw}, embedding_function=None)
    def add(batch, first):
        vectors = [vector for start in range(0, len(batch), 32) for vector in embed(batch[start : start + 32])]
        numbers = range(first, first + len(batch))
        metadata = [metadata_of(number) for number in numbers] if kind == "chroma-metadata" else None
        collection.add([f"{number}" for number in numbers], vectors, metadata, batch)
    size = 256
else:
    from langchain_chroma import Chroma
    from langchain_core.embeddings import Embeddings
    class Served(Embeddings):
        def embed_documents(self, texts):
            return [vector for start in range(0, len(texts), 32) for vector in embed(texts[start : start + 32])]
        def embed_query(self, text):
            return embed([text])[0]
    store = Chroma("texts", Served(), persist_directory=folder)
    def add(batch, first):
        store.add_texts(batch)
    size = 1000 if kind == "langchain" else 0
add(["warm"], -1)
started, cpu = time.perf_counter(), time.process_time()
count = 0
if size:
    chunks = [chunk for text in texts for chunk in chunks_of(text)]
    for start in range(0, len(chunks), size):
        add(chunks[start : start + size], start)
    count = len(chunks)
else:
    for text in texts:
        chunks = chunks_of(text)
        add(chunks, count)
        count += len(chunks)
print(json.dumps({"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu, "chunks": count}))
"""


class LoopResult(msgspec.Struct):
    """The result of a loop.

    Attributes:
        seconds: its time.
        cpu: its processor time, in seconds.
        chunks: the number of chunks that it has written.
    """

    seconds: float
    cpu: float
    chunks: int


def run_loop(kind: str, python: str, texts: Sequence[str], url: str) -> LoopResult:
    """Run a loop.

    Args:
        kind: `chroma`, `chroma-metadata`, `langchain`, or `langchain-single`.
        python: the interpreter.
        texts: the texts, which it splits into chunks of 400 characters.
        url: the server of embeddings.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(texts))
        command = [python, "-c", LOOP, kind, str(Path(folder) / "chroma"), url, str(path)]
        printed = subprocess.run(command, capture_output=True, check=True).stdout
    return msgspec.json.decode(printed, type=LoopResult)
