"""Chroma in a child process of the service."""
