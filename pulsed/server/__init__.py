"""The HTTP server of the daemon: listeners, TLS, authentication, limits of connections.

The file of `--web.config.file` has the keys and meanings of Prometheus' exporter-toolkit. The server serves an ASGI
application that is passed in.
"""
