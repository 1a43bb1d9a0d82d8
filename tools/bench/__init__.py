"""Benchmarks: what pulsed costs, each figure beside a named baseline of the same run.

`python -m tools.bench` measures what has a bar and prints the bars, met or not; `python -m tools.bench parse tick` runs
two. They print and never assert: a machine that is busy or slow moves every figure, and the ratios less.
"""
