"""Create the data folders of old Chromas that the tests read: `python scripts/old_chroma_data.py FOLDER`.

Run it in an environment with that Chroma, once for each version. It needs nothing of this project:

    python3.11 -m venv old && old/bin/pip install chromadb==0.6.3 'numpy<2'
    env -i old/bin/python scripts/old_chroma_data.py data    # the index files contain pieces of unused memory
    tar --create --gzip --owner 0 --group 0 --file tests/old_chroma/chroma-0.6.3.tar.gz --directory data .
"""

import sys
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

COLLECTIONS: dict[str, dict[str, Any] | None] = {
    # Saved to its files after every 10 documents; the others are in the log only.
    "old-saved": {"hnsw:space": "cosine", "hnsw:batch_size": 10, "hnsw:sync_threshold": 10},
    "old-cosine": {"hnsw:space": "cosine", "title": "Handbook"},
    "old-ip": {"hnsw:space": "ip"},
    "old-l2": {"hnsw:space": "l2"},
    "old-plain": None,
    "old-tuned": {"hnsw:space": "cosine", "hnsw:M": 32, "hnsw:construction_ef": 200, "hnsw:search_ef": 150},
    "old-renamed": {"hnsw:space": "cosine", "title": "Handbook"},
}


def embedding(number: int) -> list[float]:
    """The embedding of a document."""
    return [float(1 + number % 5), float(1 + number % 7), float(number + 1)]


def main() -> None:
    """Create the folder that the command line names."""
    client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))
    numbers = range(24)
    for name, metadata in COLLECTIONS.items():
        collection = client.create_collection(name, metadata=metadata, embedding_function=None)
        collection.add(
            ids=[f"d{number}" for number in numbers],
            embeddings=np.array([embedding(number) for number in numbers], dtype=np.float32),
            documents=[f"Text {number}" for number in numbers],
            metadatas=[{"page": number} for number in numbers],
        )
        if name == "old-renamed":
            # Old Chromas reject `hnsw:space` in a modification, and replace all metadata: the key is lost.
            collection.modify(metadata={"title": "Manual"})


if __name__ == "__main__":
    main()
