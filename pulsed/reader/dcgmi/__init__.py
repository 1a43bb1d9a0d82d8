"""The source `dcgmi`: a persistent `dcgmi dmon`, supervised.

`source` composes the others: `child` and `die_with_parent` run a process, `stream` parses its output to ticks,
`failures` maps its end to an error, `watch` decides which fields to request, `discovery` identifies the GPUs, and
`assembly` merges these into one tick.
"""
