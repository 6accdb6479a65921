"""The operator: FlameStreamJobs on a Kubernetes cluster. docs/operations/operator.md explains it."""
