"""What traces cost a job."""
