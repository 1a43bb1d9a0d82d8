"""The configuration: what can be set, where it may be said, and what is wrong with it."""

from pulsed.config.model import Config

__all__ = ["Config"]
