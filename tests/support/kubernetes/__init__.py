"""Kubernetes for tests and benchmarks: API servers, a kubelet, autoscalers, and clusters of daemons."""
