"""OpenAI's Vector Stores and Files API, over the knowledge bases: a base is a vector store with its id."""
