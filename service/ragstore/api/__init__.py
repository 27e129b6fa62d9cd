"""The HTTP API: routes, schemas, media types and the OpenAPI document."""
