"""What each owner got out of its GPUs: accounts of jobs, pods and processes over their whole life. No I/O."""
