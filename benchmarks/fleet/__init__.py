"""A fleet: the operator's process with hundreds of jobs, on a real API server, with simulated kubelets and workers."""
