"""Sends series to servers, by OTLP."""
