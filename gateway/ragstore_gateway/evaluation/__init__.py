"""Runs of question sets: how well searches of a knowledge base find the passages that they are expected to find."""
