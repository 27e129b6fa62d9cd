"""A running gateway, as the commands call it."""
