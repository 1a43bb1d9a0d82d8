"""Series of the page and of the hardware, encoded as OTLP, with the settings of the receivers."""
