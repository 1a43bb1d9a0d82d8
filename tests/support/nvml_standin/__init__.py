"""A stand-in for NVIDIA's driver library: C of our own, loaded by the real nvidia-ml-py, scripted by a file."""
