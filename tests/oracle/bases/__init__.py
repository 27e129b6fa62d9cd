"""The gateway's knowledge bases beside a model in memory: the same operations on both, without a difference."""
