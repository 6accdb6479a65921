"""Workers' journals for tests: one writer, and the places it is kept in."""
