"""Tests of the crawl of a web source."""
