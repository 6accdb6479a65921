"""The processes of a job: a worker's, the coordinator's, and what they show of themselves."""
