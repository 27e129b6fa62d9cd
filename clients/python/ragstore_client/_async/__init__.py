"""The client for asynchronous programs, in parts by what its calls concern."""
