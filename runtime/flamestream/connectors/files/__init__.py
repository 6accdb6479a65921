"""Files: a source of all formats, bounded or followed, in a folder or in S3; and the sink that is a folder of
logs."""
