"""Health of GPUs: whether they are in order, and what to do.

`checks` declares every check: rules with thresholds, and words. A rule (`rule`; its kinds are in `rule_kinds` and
`xid_rule`) makes a severity from `inputs`, with times to raise and to leave it. `plan` finds the rules that a sample
concerns, `gpu` evaluates a sample of one GPU, and `evaluator` a tick, with the GPUs that are missing. `saved_state` is
what survives a restart, `model` what comes out.
"""
