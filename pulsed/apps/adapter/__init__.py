"""`pulsed adapter`: the metrics APIs of Kubernetes, answered from the daemons of a cluster."""
