"""The source `dcgmi`: a persistent `dcgmi dmon`, supervised.

`source` puts the parts together: `child` and `die_with_parent` keep a process, `stream` makes its output ticks,
`failures` maps what its end means, `watch` which fields it is asked for, `discovery` who the GPUs are, `assembly` one
tick of it all.
"""
