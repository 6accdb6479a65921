"""The states of a job that runs, for programs beside it."""
