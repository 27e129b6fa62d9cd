"""The web: safe fetching, extraction of pages, search, summaries."""
