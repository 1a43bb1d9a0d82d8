"""The source `demo`: one simulated node whose eight GPUs do recognisable things."""

from pulsed.reader.demo.source import DemoSource, Node

__all__ = ["DemoSource", "Node"]
