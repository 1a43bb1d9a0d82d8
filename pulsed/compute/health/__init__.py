"""Health of GPUs: checks as data, a few kinds of rules, and what has to be remembered between samples."""
