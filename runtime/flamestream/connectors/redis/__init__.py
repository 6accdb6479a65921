"""Redis: a stream as source, a hash or a stream as sink. Needs the extra `redis`."""
