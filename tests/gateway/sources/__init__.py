"""Tests of sources of knowledge bases."""
