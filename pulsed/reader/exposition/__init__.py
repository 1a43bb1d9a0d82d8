"""Prometheus' exposition formats as values: the hot path of the exporter source."""
