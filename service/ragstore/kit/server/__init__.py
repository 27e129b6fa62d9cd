"""The HTTP server: uvicorn with limits of its own. `runner` starts it."""
