"""NVIDIA driver messages in the kernel log: XIDs, SXIDs and GPUs that have fallen off the bus."""
