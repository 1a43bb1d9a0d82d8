"""Tests of the whole program with real parts: `make test-all` runs them."""
