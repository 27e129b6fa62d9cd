"""The web: extraction of pages, search, summaries."""
