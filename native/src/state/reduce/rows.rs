//! Rows of snapshots: a bucket's accumulator at a live cut, or what changed of it between two.

use crate::meta::Floor;
use crate::payload::encoding;
use crate::payload::plans::MAX_DEPTH;
use crate::payload::vector;
use crate::state::buckets::Changed;
use crate::state::reduce::{encoded, Reduce, LEAST_LIMIT};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Reduce {
    /// What changed of a bucket between two cuts.
    pub fn row<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        committed: &Floor,
        cut: &Floor,
    ) -> PyResult<Option<Changed<'py>>> {
        if !self.table.exists(at) {
            return Ok(None);
        }
        let content = &self.table.at(at).content;
        let (before, newest) = (content.below(committed), content.below(cut));
        if newest == before {
            return Ok(None);
        }
        let accumulator =
            self.accumulator(py, at, newest - 1)?.expect("an entry below minimal time has its accumulator");
        if before > 0 && self.table.at(at).full > 0 {
            let old = self
                .accumulator(py, at, before - 1)?
                .expect("an entry below minimal time has its accumulator");
            if let Some(change) = self.change(&old, &accumulator)? {
                let bucket = self.table.at(at);
                if bucket.takes(change.as_bytes().len()) {
                    return Ok(Some(bucket.row(py, false, change)));
                }
            }
        }
        let state = PyBytes::new(py, &encoded(&accumulator)?);
        Ok(Some(self.table.at(at).row(py, true, state)))
    }

    fn change<'py>(
        &self,
        old: &Bound<'py, PyAny>,
        new: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if let Some(change) = appended(old, new) {
            return Ok(Some(PyBytes::new(old.py(), &change)));
        }
        let change = self.delta_state.bind(old.py()).call1((old, new))?;
        if change.is_none() {
            Ok(None)
        } else {
            Ok(Some(change.cast_into()?))
        }
    }
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
