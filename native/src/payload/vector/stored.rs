//! Stored Vectors: a full state, and the deltas of appends behind it.
//!
//! Does not: know other deltas, which Python reads; or write any (state/accumulators/rows.rs).

use crate::payload::decoding::Reader;
use crate::payload::encoding::Unsupported;
use crate::payload::plans::MAX_DEPTH;
use crate::payload::vector::construction::of_values;
use crate::payload::vector::VECTOR_TAG;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// The Vector of a full state and deltas that all append, as `reduce.decoded` gives it; None for whatever is
/// not that.
#[pyfunction]
pub fn restored<'py>(stored: &Bound<'py, PyTuple>) -> Option<Bound<'py, PyAny>> {
    let py = stored.py();
    let mut values = Vec::new();
    for (place, part) in stored.iter().enumerate() {
        let mut reader = Reader::new(part.cast::<PyBytes>().ok()?.as_bytes());
        let count =
            if place == 0 { whole(&mut reader) } else { appending(&mut reader, values.len()) }.ok()?;
        for _ in 0..count {
            values.push(reader.value(py, MAX_DEPTH - 1).ok()?);
        }
        if !reader.at_end() {
            return None;
        }
    }
    of_values(py, &values).ok()
}

/// How many values stand behind the header of a Vector.
pub fn whole(reader: &mut Reader<'_>) -> Result<usize, Unsupported> {
    let size = reader.array()?;
    if size > 0 && reader.number()? == VECTOR_TAG {
        Ok(size - 1)
    } else {
        Err(Unsupported)
    }
}

/// How many values stand behind the header of a delta that appends to a Vector of `before` (see
/// `reduce::appended`).
pub fn appending(reader: &mut Reader<'_>, before: usize) -> Result<usize, Unsupported> {
    let shape = reader.array()? == 6 && reader.number()? == 1 && reader.number()? == before as u64;
    let after = reader.number()?;
    let count = if shape && reader.array()? == 0 && reader.array()? == 0 {
        reader.array()?
    } else {
        return Err(Unsupported);
    };
    if after == (before + count) as u64 {
        Ok(count)
    } else {
        Err(Unsupported)
    }
}
