"""The HTTP server of the daemon: listeners, TLS, authentication, limits of connections.

The file of `--web.config.file` is that of Prometheus' exporter-toolkit, with its keys and meanings. What is
served is an ASGI application that is passed in.
"""
