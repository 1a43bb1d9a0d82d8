"""Loads, merges and checks a configuration, and reports what is wrong with it. Independent of its keys."""
