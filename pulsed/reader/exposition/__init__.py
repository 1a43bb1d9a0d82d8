"""Prometheus' exposition formats as values: the hot path of the exporter source."""

from pulsed.reader.exposition.parser import Page, PageParser
from pulsed.reader.exposition.row import PageLimits, limits_for

__all__ = ["Page", "PageLimits", "PageParser", "limits_for"]
