"""The configuration: its keys, how it is loaded, and its error messages."""

from pulsed.config.model import Config

__all__ = ["Config"]
