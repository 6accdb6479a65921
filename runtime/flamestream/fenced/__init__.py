"""Which bytes of older attempts count, in a folder that several attempts write to."""
