//! Accumulators: what a reduce and transactions have in common, the mirror of `core/dataflow/accumulators.py`: per
//! key, what has come, ascending, with the value that stands behind each of it.
//!
//! Does not: say what comes, or what it makes of the value before (reduce/, transactions/).

mod entries;
mod rows;

pub use entries::{Accumulator, Entries, Entry};
pub use rows::{delta, python_delta, LEAST_LIMIT};

use crate::payload::encoding;
use crate::python::reference::refused;
use crate::state::buckets::Content;
use crate::state::keyed::Table;
use pyo3::prelude::*;

pub const TRIM_ABOVE: usize = 32;

/// The buckets of one operation on one worker. `T`: an item that has come.
pub struct Accumulators<T> {
    pub operation: usize,
    pub table: Table<Entries<T>>,
    /// `stored.Reading.accumulator`: tuple of stored bytes -> accumulator.
    pub decoded: Py<PyAny>,
    /// `states.delta_state`.
    pub delta_state: Py<PyAny>,
}

/// (meta, result, is it a tombstone).
pub type Changes<'py> = Vec<(crate::meta::Meta, Bound<'py, PyAny>, bool)>;

pub fn encoded(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    encoding::put(value.py(), &mut out, value).or_else(|_| refused(value, &mut out))?;
    Ok(out)
}

impl<T> Accumulators<T> {
    /// The accumulator of the entry at a place of a bucket; None if it has none yet.
    pub fn accumulator<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        place: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.table.at(at).content.accumulator(py, &self.decoded, place)
    }

    /// The accumulator of a key below a cut; None if there is none.
    pub fn below<'py>(
        &mut self,
        py: Python<'py>,
        key: &[u8],
        cut: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(at) = self.table.find(key) else { return Ok(None) };
        match self.table.at(at).content.below(cut) {
            0 => Ok(None),
            count => self.accumulator(py, at, count - 1),
        }
    }
}
