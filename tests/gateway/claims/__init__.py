"""Tests of leases and claims, whatever is claimed."""
