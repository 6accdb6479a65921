"""Commands that show a job: in a browser, and item by item."""
