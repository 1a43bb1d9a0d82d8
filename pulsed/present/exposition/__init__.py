"""The `/metrics` page: text format, families, rendering and caching."""
