"""Workers that come and go with the load, measured from outside."""
