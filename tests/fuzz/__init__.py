"""Fuzzing: any bytes give a value or one of the named errors, in bounded memory and time (decision 050)."""
