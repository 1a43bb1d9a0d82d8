"""The source `exporter`: HTTP client, scraper and source."""
