"""What a job has done, for an audit: its recorded input, its committed cut, what the reference expects, and
where its users look."""
