"""Runs copies of other projects' tests of OpenAI's Vector Stores and Files API against a running gateway."""
