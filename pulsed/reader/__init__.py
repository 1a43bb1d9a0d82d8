"""Layer 1, Read: from a source's bytes to `RawTick`s in the source's own words."""
