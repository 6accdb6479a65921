"""Changes of a job that runs, and the looks at what is new before they are made."""
