"""The Kubernetes API, as far as pulsed reads it. It must not depend on GPUs, targets or the configuration."""
