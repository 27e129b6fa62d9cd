"""Limits of tenants."""
