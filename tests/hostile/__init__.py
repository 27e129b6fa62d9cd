"""Hostile callers: what one of them sends harms no other, and costs it no more than its own request."""
