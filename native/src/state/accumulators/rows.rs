//! Rows of snapshots: a bucket's accumulator at a live cut, or what changed of it between two.

use crate::payload::encoding;
use crate::payload::plans::MAX_DEPTH;
use crate::payload::vector;
use crate::state::accumulators::{encoded, Accumulators, Entries};
use crate::state::keyed::Table;
use crate::state::rows::Rows;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Appended values up to which a delta is always worth it (`state.LEAST_LIMIT`).
pub const LEAST_LIMIT: usize = 64;

impl<T> Rows for Accumulators<T> {
    type Content = Entries<T>;

    fn table(&mut self) -> &mut Table<Entries<T>> {
        &mut self.table
    }

    fn change<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        before: usize,
        newest: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (old, new) = (self.final_accumulator(py, at, before)?, self.final_accumulator(py, at, newest)?);
        match appended(&old, &new) {
            Some(change) => Ok(Some(PyBytes::new(py, &change))),
            None => python_delta(&self.delta_state, &old, &new),
        }
    }

    fn full(&mut self, py: Python<'_>, at: u32, newest: usize) -> PyResult<Vec<u8>> {
        encoded(&self.final_accumulator(py, at, newest)?)
    }
}

impl<T> Accumulators<T> {
    /// The accumulator of the last of `count` entries, all below minimal time.
    fn final_accumulator<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        count: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.accumulator(py, at, count - 1)?.expect("an entry below minimal time has its accumulator"))
    }
}

/// The change of an accumulator as `state.delta_state` writes it; None if it is not worth it.
pub fn python_delta<'py>(
    delta_state: &Py<PyAny>,
    old: &Bound<'py, PyAny>,
    new: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    Ok(delta_state.bind(old.py()).call1((old, new))?.extract()?)
}

/// The delta of an accumulator, where the kernel knows it. Raises nothing.
#[pyfunction]
pub fn delta<'py>(old: &Bound<'py, PyAny>, new: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    appended(old, new).map(|change| PyBytes::new(old.py(), &change))
}

/// The delta of a Vector that only grew, as `state.delta_state` writes it: [1, before, size, [], [],
/// [values...]].
fn appended(old: &Bound<'_, PyAny>, new: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    let (py, old, new) = (old.py(), old.as_ptr(), new.as_ptr());
    if !vector::is_vector(old) || !vector::is_vector(new) {
        return None;
    }
    // SAFETY: both are Vectors, and alive.
    unsafe {
        let (before, after) = (vector::size(old).ok()?, vector::size(new).ok()?);
        if !vector::grew(old, new).ok()? || after - before > LEAST_LIMIT {
            return None;
        }
        let mut out = vec![0x96, 1];
        encoding::put_unsigned(&mut out, before as u64);
        encoding::put_unsigned(&mut out, after as u64);
        out.extend_from_slice(&[0x90, 0x90]);
        encoding::put_array(&mut out, after - before);
        vector::values_from(new, before, &mut |value| {
            encoding::put_object(py, &mut out, value, MAX_DEPTH - 1)
        })
        .ok()?;
        Some(out)
    }
}
