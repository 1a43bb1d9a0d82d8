"""The text of `dcgmi dmon`, in the layout of every DCGM version, as values."""
