"""The client for synchronous programs, in parts by what its calls concern."""
