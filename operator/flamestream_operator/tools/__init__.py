"""Programs that run in pods of their own beside a job: audit, cat, preflight."""
