"""Where documents are kept: the `Store` protocol, Chroma behind it, and stores that wrap a store."""
