"""Tests of the context library."""
