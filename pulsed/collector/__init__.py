"""Reads sources on their schedule, and holds the latest tick of every target."""
