//! View: the rows of all tables as one transaction sees them, those below its place, and which of them it reads.
//!
//! Keeps: what somebody holds beyond a run gives nothing of another one.

use crate::meta::Meta;
use crate::python::reference;
use crate::state::accumulators::Entries;
use crate::state::buckets::Content;
use crate::state::keyed::Table;
use crate::state::transactions::pending::RowKey;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The rows that a run has read, and the value of each; None: nobody below had written it.
pub type Reads = Vec<(RowKey, Option<Py<PyAny>>)>;
/// Rows, each with the values that transactions have written, by their numbers.
pub type RowTable = Table<Entries<u32>>;

/// What a run sees, as long as it lasts.
pub struct Run {
    pub rows: RowTable,
    pub meta: Meta,
    pub read: Reads,
}

/// `transaction.Read`: ((table, key), other) -> the value of a row, or the other if nobody has written it.
#[pyclass]
pub struct View {
    /// `stored.Reading.accumulator`.
    pub decoded: Py<PyAny>,
    pub run: Option<Run>,
}

#[pymethods]
impl View {
    fn __call__<'py>(
        &mut self,
        row: &Bound<'py, PyAny>,
        other: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = row.py();
        let Some(run) = &mut self.run else {
            return Err(PyRuntimeError::new_err("rows of a transaction are there until it ends"));
        };
        let key = RowKey::from_slice(&reference::encoded(row)?);
        let value = below(py, &mut run.rows, &self.decoded, &key, &run.meta)?;
        let read = value.as_ref().map(|value| value.clone().unbind());
        match run.read.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = read, // in debug mode each function runs twice
            None => run.read.push((key, read)),
        }
        Ok(value.unwrap_or(other))
    }
}

/// The value of a row below a place; None if nobody there has written it.
pub fn below<'py>(
    py: Python<'py>,
    rows: &mut RowTable,
    decoded: &Py<PyAny>,
    row: &[u8],
    meta: &[u8],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(at) = rows.find(row) else { return Ok(None) };
    let entries = &mut rows.at(at).content;
    match entries.below(meta) {
        0 => Ok(None),
        count => entries.accumulator(py, decoded, count - 1),
    }
}
