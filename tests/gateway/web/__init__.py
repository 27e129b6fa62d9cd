"""Tests of the web: safe fetching, extraction, search, summaries."""
