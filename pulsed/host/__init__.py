"""What this host has in addition to the samples of its GPUs, and the checks of the node.

A module per subject reads it, each with a function of the root folder. `node_checks` declares the checks, and
`node_evaluator` evaluates them look by look.
"""
