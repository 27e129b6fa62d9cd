"""The commands `ragstore-gateway kb`: knowledge bases of a running gateway."""
