"""Tests of the gateway's engines."""
