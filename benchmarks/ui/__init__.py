"""What the page costs a job."""
