"""The Model Context Protocol: agents search, read and fill knowledge bases by tools and resources."""
