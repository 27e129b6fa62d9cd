"""Interim."""

from semantic_text_splitter import TextSplitter

from ragstore_gateway.splitting.chunk import Chunk


def split(extracted, chunking):
    splitter = TextSplitter(chunking.size, overlap=chunking.overlap, trim=False)
    found = [(s, t) for s, t in splitter.chunk_indices(extracted.text) if t.strip()]
    return [Chunk(i, s, s + len(t), t, len(t) // 4) for i, (s, t) in enumerate(found)]
