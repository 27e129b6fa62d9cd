"""Dynamic batching: requests that wait for the same collection become one call."""
