"""Lists of targets in Prometheus' formats (files, HTTP, DNS), and the shards that divide them."""
