"""The store that the gateway writes to: a remote one, or one in its process."""
