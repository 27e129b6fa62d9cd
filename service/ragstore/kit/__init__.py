"""The parts that any service of ours needs: settings, logging, problem documents, keys, middleware, metrics, server.

It imports nothing else of ragstore, and knows nothing of any service.
"""
