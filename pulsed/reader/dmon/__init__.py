"""The text of `dcgmi dmon`, in the layout of every DCGM version, as values."""

from pulsed.reader.dmon.parser import DmonMessage, DmonParser, DmonTick, message_of

__all__ = ["DmonMessage", "DmonParser", "DmonTick", "message_of"]
