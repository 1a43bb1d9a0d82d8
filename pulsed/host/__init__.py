"""Reads what this host has beside the samples of its GPUs. A module per subject, each a function of the root folder."""
