"""The daemon `pulsed serve`: its collectors, features, state files, reload and HTTP server, put together."""
