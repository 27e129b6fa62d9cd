"""The gateway's page: its description, and the rights of the caller."""
