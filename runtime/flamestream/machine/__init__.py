"""What this machine gives a process: its parent and identity, processors, Java, disk and cache."""
