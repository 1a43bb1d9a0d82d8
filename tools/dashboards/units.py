"""Units of values in Grafana."""

COUNT, RATIO, BYTES, BYTE_RATE = "short", "percentunit", "bytes", "Bps"
WATT, CELSIUS, HERTZ, SECONDS = "watt", "celsius", "hertz", "s"
"""Grafana's ids of units; pulsed's values are in them as they come."""

KWH, HOURS = "kwatth", "suffix: h"
"""Of joules and seconds that a query has converted."""
