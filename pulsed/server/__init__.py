"""The HTTP side's doors: who may come in, through which socket, how many, and for how long.

The file of `--web.config.file` is that of Prometheus' exporter-toolkit, with its keys and meanings. Imports the
application as an ASGI callable, and nothing of what it answers.
"""
