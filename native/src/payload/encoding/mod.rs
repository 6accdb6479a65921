//! Encoding and checking payloads: the mirror of `model/payloads/encoding.py`.
//!
//! Only what succeeds is done here. Whatever cannot be encoded gives `Unsupported`, and the Python reference
//! then decides and explains.

mod map;
mod measures;
mod parts;
mod values;
mod wire;

pub use measures::{height, size};
pub use values::{put, put_object};
pub use wire::{put_array, put_bytes, put_float, put_int, put_str, put_unsigned};

/// Leave it to the Python reference: it is no payload, or of a kind that is not known here.
pub struct Unsupported;
pub type Encoded = Result<(), Unsupported>;
