"""Sends series to servers of Prometheus' remote write protocol 1.0."""
