"""Audits of a job: its recorded input, its committed cut, what the reference expects, and where its users
look."""
