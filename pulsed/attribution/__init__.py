"""Who uses a GPU: pods, jobs, processes. Cross-cutting: later layers carry it along, none computes with it."""
