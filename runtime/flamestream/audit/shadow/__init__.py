"""A shadow of a running job: other code for the same records, with a state of its own, beside what the job delivers."""
