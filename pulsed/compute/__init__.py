"""Layer 3, Compute: from readings to what they mean. Pure functions; no I/O, no clock."""
