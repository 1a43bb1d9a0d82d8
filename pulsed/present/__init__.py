"""Layer 4, Present: from computed ticks to pages, documents and tables that others read."""
