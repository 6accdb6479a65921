"""PostgreSQL: a change log as source, a table as sink. Needs the extra `postgres`."""
