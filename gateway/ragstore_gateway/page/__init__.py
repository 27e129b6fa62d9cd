"""The first calls of the web page: the description of the gateway, and the rights of the caller."""
