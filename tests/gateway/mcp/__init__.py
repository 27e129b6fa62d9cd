"""Tests of the Model Context Protocol, with real clients over sockets."""
