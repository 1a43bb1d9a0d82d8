"""A stand-in for the CUDA driver library: C of our own, scripted by environment variables. It computes nothing."""
