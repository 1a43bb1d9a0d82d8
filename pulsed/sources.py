"""From configuration to sources: the only place that knows every kind."""
