"""Texts and numbers about owners, from counters by name: the report, advice and comparison of jobs, and sums."""
