"""The `where` language: filters over metadata, parsed and evaluated. The store and the gateway share it."""
