"""Health of GPUs: whether they are in order, and what to do.

`checks` declares every check: rules with thresholds, and words. A rule (`rule`; other kinds are in `rule_kinds` and
`xid_rule`) makes a severity from a measure (`measures`) of the `inputs`, with times to raise and to leave it. `gpu` has
the state of one GPU, and `evaluator` that of a target, with the GPUs that are missing. `saved_state` is what survives a
restart. The checks of the node are in `pulsed.host`.
"""
