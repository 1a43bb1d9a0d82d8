"""The JSON API: documents, schema, history and server-sent events."""
