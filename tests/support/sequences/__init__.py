"""Random sequences of time: what a node's exporters deliver while sources, GPUs, clocks and owners change, and the laws
that every result must keep.
"""
