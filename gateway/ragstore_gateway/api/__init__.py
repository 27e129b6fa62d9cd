"""Parts that all routes share: bodies, uploads, OpenAPI, errors in the shape of OpenAI."""
