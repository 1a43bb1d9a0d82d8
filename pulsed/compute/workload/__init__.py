"""Workload class: the class table, and its evaluation over bounds."""
