"""The pure core: what is seen -> what is decided (a status) -> what is to be done. No I/O, clock or randomness."""
