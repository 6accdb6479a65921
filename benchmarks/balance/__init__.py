"""How evenly slots are dealt out, before and after they have moved."""
