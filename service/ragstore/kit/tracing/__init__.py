"""OpenTelemetry, imported only when traces are exported."""
