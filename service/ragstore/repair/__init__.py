"""Mends what Chroma breaks when it is killed while it saves an index. It needs no chromadb."""
