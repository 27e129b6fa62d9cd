"""Tests of the gateway's vector stores."""
