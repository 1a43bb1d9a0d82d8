"""Fuzzing guided by coverage of everything that reads bytes from outside. Run as `python -m tools.fuzz`."""
