"""The operator: FlameStreamJobs on a Kubernetes cluster. docs/operator.md explains it."""
