"""Kubernetes for tests and benchmarks: API servers, a kubelet, and clusters of daemons."""
