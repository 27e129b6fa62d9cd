"""Integrations into other frameworks, each with an extra of its own. Nothing else of the package imports them."""
