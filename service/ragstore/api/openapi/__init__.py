"""The OpenAPI document: operations derived from the routes by Litestar, schemas from the structs by msgspec."""
