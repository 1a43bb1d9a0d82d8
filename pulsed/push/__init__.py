"""Sends series to servers, by Prometheus' remote write 1.0 and by OTLP."""
