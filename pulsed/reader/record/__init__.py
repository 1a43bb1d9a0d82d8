"""A record: what `pulsed record` keeps of any source, in the source's own words, and `replay` plays again."""
