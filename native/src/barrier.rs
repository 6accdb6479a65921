//! Barriers: the mirror of `core/dataflow/barrier.py`.
//!
//! A result is encoded when it is held, once: the same bytes are compared with tombstones, put into bundles
//! and delivered (delivery.rs).

use crate::meta::{time_of, Meta};
use crate::payload::encoding;
use crate::payload::row::object_of;
use crate::python::reference::{refused, unmatched};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList};
use std::collections::BTreeMap;

pub struct Held {
    pub meta: Meta,
    pub slot: u16,
    pub payload: Box<[u8]>,
}

/// The results of one sink on one worker, until minimal time passes them.
#[pyclass(unsendable)]
#[derive(Default)]
pub struct Barrier {
    held: BTreeMap<u64, Vec<Held>>,
    /// Results that were taken away again.
    #[pyo3(get)]
    dropped: u64,
    scratch: Vec<u8>,
}

impl Barrier {
    fn encoded(&mut self, payload: &Bound<'_, PyAny>) -> PyResult<Box<[u8]>> {
        self.scratch.clear();
        encoding::put(payload.py(), &mut self.scratch, payload)
            .or_else(|_| refused(payload, &mut self.scratch))?;
        Ok(self.scratch.as_slice().into())
    }

    pub fn keep(&mut self, meta: Meta, slot: u16, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        let payload = self.encoded(payload)?;
        self.keep_encoded(meta, slot, payload);
        Ok(())
    }

    pub fn keep_encoded(&mut self, meta: Meta, slot: u16, payload: Box<[u8]>) {
        self.held.entry(time_of(&meta)).or_default().push(Held { meta, slot, payload });
    }

    pub fn take_away(&mut self, meta: &Meta, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        let encoded = self.encoded(payload)?;
        self.take_away_encoded(payload.py(), meta, &encoded)
    }

    pub fn take_away_encoded(&mut self, py: Python<'_>, meta: &Meta, payload: &[u8]) -> PyResult<()> {
        let held = self.held.entry(time_of(meta)).or_default();
        match held.iter().position(|other| other.meta == *meta && *other.payload == *payload) {
            Some(place) => {
                held.remove(place);
                self.dropped += 1;
                Ok(())
            }
            None => Err(unmatched(py, "a barrier", meta)),
        }
    }
}

#[pymethods]
impl Barrier {
    #[new]
    fn new() -> Self {
        Barrier::default()
    }

    fn hold(&mut self, meta: &[u8], slot: u16, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        self.keep(Meta::from_slice(meta), slot, payload)
    }

    fn drop(&mut self, meta: &[u8], payload: &Bound<'_, PyAny>) -> PyResult<()> {
        self.take_away(&Meta::from_slice(meta), payload)
    }

    /// Everything below `minimal`, ascending.
    fn release(&mut self, minimal: u64) -> Released {
        let mut released = Vec::new();
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() >= minimal {
                break;
            }
            let mut ready = entry.remove();
            ready.sort_by(|one, other| one.meta.cmp(&other.meta));
            released.append(&mut ready);
        }
        Released { results: released }
    }

    fn __len__(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }
}

/// Items that a barrier has released.
#[pyclass(unsendable)]
pub struct Released {
    pub results: Vec<Held>,
}

#[pymethods]
impl Released {
    fn __len__(&self) -> usize {
        self.results.len()
    }

    /// (meta, slot, payload) of each.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let results = self
            .results
            .iter()
            .map(|held| Ok((PyBytes::new(py, &held.meta), held.slot, object_of(py, &held.payload)?)));
        PyList::new(py, results.collect::<PyResult<Vec<_>>>()?)?.try_iter()
    }
}
