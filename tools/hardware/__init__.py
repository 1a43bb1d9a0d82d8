"""Kernels of known kind on a real GPU: what their readings and classes must be, by what the hardware counts."""
