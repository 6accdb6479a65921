//! Python's objects, as the kernel reads and makes them, and the Python reference that it asks.

pub mod arenas;
pub mod buffers;
pub mod moments;
pub mod objects;
pub mod reference;
pub mod slots;
