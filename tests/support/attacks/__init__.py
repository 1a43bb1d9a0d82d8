"""Clients that try to stop a daemon, and what a daemon takes meanwhile."""
