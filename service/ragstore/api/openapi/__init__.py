"""The OpenAPI document: Litestar derives it from the routes, msgspec the schemas from the structs; here they meet."""
