"""Tests of the Python client of the gateway."""
