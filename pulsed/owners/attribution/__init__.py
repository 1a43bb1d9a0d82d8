"""Who has a GPU: pods, jobs, processes, and the sources from which this is read. Cross-cutting; imports no layer."""
