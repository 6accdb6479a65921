//! fs.Vector: its append, its encoding, and its deltas; the mirror of `model/collections/vector.py`, on the
//! same Python objects.
//!
//!     size, level, counts by height | root: full leaves, 32 values or nodes a node | tail: the newest values
//!
//! The root is of tuples, which no version changes. The tail is a list that versions share: each sees as much
//! of it as its size says, and the newest one puts its next value behind (append.rs).

mod append;
mod construction;
mod growth;
mod layout;
mod stored;
#[cfg(test)]
mod tests;
mod values;

pub use construction::of_values;
pub use growth::grew;
pub use layout::{install_vector, is_class, is_vector, size};
pub use stored::{appending, restored, whole};
pub use values::{height, values_from};

/// `vector.VECTOR_TAG`.
pub const VECTOR_TAG: u64 = 1;
