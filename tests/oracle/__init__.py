"""The store beside numpy: the same operations on both, without a difference."""
