"""Health, liveness and readiness."""
