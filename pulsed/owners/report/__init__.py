"""What is said about owners: the report, advice and comparison of jobs, and the sums of many; from counters by name."""
