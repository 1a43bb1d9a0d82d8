"""Prometheus' exposition formats as values: the hot path of the exporter source."""

from pulsed.reader.exposition.parser import Page, PageLimits, PageParser

__all__ = ["Page", "PageLimits", "PageParser"]
