"""Limits of tenants, over all replicas."""
