"""How much of the daemon one client can take up, beyond what the section `web` of the configuration limits."""

MOST_HEADER_BYTES = 64 * 1024
"""Request line and headers of one request; Prometheus sends some 400."""

MOST_BODY_BYTES = 64 * 1024
"""No route takes a body: this much is read and thrown away, so that a client gets its response."""

STUCK_SECONDS = 30.0
"""How long a client may take nothing of what waits for it, or leave a closed connection half open."""

LINGER_SECONDS = 1.0
"""How long a refused client has to read why, before the connection goes."""
