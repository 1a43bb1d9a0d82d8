"""Health of one GPU: whether it is in order, and what to do.

`checks` declares every check: rules with thresholds, and words. A rule (`rule`; other kinds are in `rule_kinds` and
`xid_rule`) makes a severity from a measure of the `inputs`, with times to raise and to leave it. `gpu` has the state of
one GPU, with what adds up over time (`windows`), whether it answers (`presence`), and its XIDs (`xid_log`).

`pulsed.compute.health_evaluator` evaluates all GPUs of a target, `pulsed.compute.saved_state` is what survives a
restart, and `pulsed.host.node_checks` declares the checks of the node.
"""
