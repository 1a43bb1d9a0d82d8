"""Prometheus' exposition formats as values: the hot path of the exporter source."""

from pulsed.reader.exposition.parser import Limits, Page, PageParser

__all__ = ["Limits", "Page", "PageParser"]
