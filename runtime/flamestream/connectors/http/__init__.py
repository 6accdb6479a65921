"""HTTP: a source that clients POST to, a sink that POSTs, and server-sent events. Needs the extra `http`."""
