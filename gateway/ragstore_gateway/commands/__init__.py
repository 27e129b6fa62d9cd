"""The commands of `ragstore-gateway`."""
