"""The first touch of a key of another version, measured alone."""
