"""pulsed reads what NVIDIA's tools measure on a GPU node and republishes what it means."""

__version__ = "0.1.0"
