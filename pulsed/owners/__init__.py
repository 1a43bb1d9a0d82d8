"""Whose GPU it is, and what its owners did with it."""
