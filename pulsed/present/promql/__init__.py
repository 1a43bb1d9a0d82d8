"""Recording and alerting rules on pulsed's own metrics, generated from the tables of Compute and Present."""
