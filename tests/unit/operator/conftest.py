"""A job in a folder of its own."""

from support.runs.job_folder import job as job
