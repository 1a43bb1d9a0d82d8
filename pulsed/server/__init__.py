"""HTTP: listeners, TLS, authentication, limits of connections, and the routes that need no framework.

The file of `--web.config.file` is that of Prometheus' exporter-toolkit, with its keys and meanings. The JSON API is an
ASGI application that is passed in.
"""
