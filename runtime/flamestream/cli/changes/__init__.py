"""The commands that change a job which runs."""
