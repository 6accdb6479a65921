"""The protocol as pure machines: `step(state, event) -> actions`. No I/O, clock or chance."""
