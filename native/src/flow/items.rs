//! Items: what is on its way through the graph.

use crate::meta::Meta;
use crate::payload::row::Row;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use smallvec::SmallVec;

/// The canonical encoding of a key; most fit without touching the heap.
pub type Key = SmallVec<[u8; 32]>;

/// As an object, or as it was encoded.
pub enum Payload {
    Object(Py<PyAny>),
    Row(Row),
}

impl Payload {
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Payload::Object(object) => Ok(object.bind(py).clone()),
            Payload::Row(row) => row.object(py),
        }
    }
}

/// An item at this worker's door, or one that waits there with its place known.
pub struct Work {
    pub meta: Meta,
    pub cause: u64,
    pub vertex: usize,
    pub payload: Payload,
    pub tombstone: bool,
    pub place: Option<(Key, u16)>,
}

/// New runs, each (meta, cause, vertex, payload, is it a tombstone).
pub(super) fn entered(runs: &Bound<'_, PyList>) -> PyResult<Vec<Work>> {
    let mut work = Vec::with_capacity(runs.len());
    for run in runs.iter() {
        let run = run.cast_into::<PyTuple>()?;
        work.push(Work {
            meta: Meta::from_slice(run.get_item(0)?.cast::<PyBytes>()?.as_bytes()),
            cause: run.get_item(1)?.extract()?,
            vertex: run.get_item(2)?.extract()?,
            payload: Payload::Object(run.get_item(3)?.unbind()),
            tombstone: run.get_item(4)?.extract()?,
            place: None,
        });
    }
    Ok(work)
}
