"""The changes of a running job: other code takes over, or another job does."""
