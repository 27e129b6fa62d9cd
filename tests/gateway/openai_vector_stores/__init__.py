"""Tests of OpenAI's Vector Stores and Files API."""
