"""The source `dcgmi`: a persistent `dcgmi dmon`, supervised.

`source` composes the others: `child` runs a process, `stream` parses its output to ticks, `failures` maps its end to an
error, `watch` decides which fields to request, and `discovery` identifies the GPUs.
"""
