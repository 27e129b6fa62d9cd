"""Tests of runs of question sets."""
