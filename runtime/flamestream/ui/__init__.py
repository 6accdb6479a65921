"""The page: jobs that are looked at in a browser. Its API, and the server of both."""
