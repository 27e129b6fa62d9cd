"""Tests of the keyword index."""
