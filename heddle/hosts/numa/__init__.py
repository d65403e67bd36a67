"""Where the memory of a process lies on a machine of several NUMA nodes."""
