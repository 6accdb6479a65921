"""The machine as a process needs it: parent and identity, processors, Java, disk and cache."""
