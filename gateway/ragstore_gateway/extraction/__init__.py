"""Extraction: from files of many formats to their text."""
