"""The source `nvml`: NVIDIA's driver library, read in this process. Needs the extra `pulsed[nvml]`."""
