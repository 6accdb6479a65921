//! Outgoing items, gathered per receiver and cause: the mirror of the columns in `core/dataflow/outbox.py`.
//! Payloads are encoded as they come.

use crate::meta::Meta;
use crate::payload::encoding;
use crate::python::reference;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// In one message; more are several messages, so frames stay bounded (`outbox.MOST_ITEMS`).
const MOST_ITEMS: usize = 4096;

struct Columns {
    owner: u16,
    cause: u64,
    vertices: Vec<usize>,
    metas: Vec<Meta>,
    tombstones: Vec<bool>,
    payloads: Vec<u8>,
}

#[derive(Default)]
pub struct Outgoing {
    full: Vec<Columns>,
    open: Vec<Columns>,
}

impl Outgoing {
    pub fn send(
        &mut self,
        owner: u16,
        cause: u64,
        vertex: usize,
        meta: &Meta,
        payload: &Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let at = self.columns(owner, cause);
        reference::append(payload, &mut self.open[at].payloads)?;
        self.sent(at, vertex, meta, tombstone);
        Ok(())
    }

    pub fn send_encoded(
        &mut self,
        owner: u16,
        cause: u64,
        vertex: usize,
        meta: &Meta,
        payload: &[u8],
        tombstone: bool,
    ) {
        let at = self.columns(owner, cause);
        self.open[at].payloads.extend_from_slice(payload);
        self.sent(at, vertex, meta, tombstone);
    }

    fn columns(&mut self, owner: u16, cause: u64) -> usize {
        let found = self.open.iter().rposition(|columns| columns.cause == cause && columns.owner == owner);
        found.unwrap_or_else(|| {
            self.open.push(Columns {
                owner,
                cause,
                vertices: vec![],
                metas: vec![],
                tombstones: vec![],
                payloads: vec![],
            });
            self.open.len() - 1
        })
    }

    fn sent(&mut self, at: usize, vertex: usize, meta: &Meta, tombstone: bool) {
        let columns = &mut self.open[at];
        columns.vertices.push(vertex);
        columns.metas.push(meta.clone());
        columns.tombstones.push(tombstone);
        if columns.metas.len() >= MOST_ITEMS {
            self.full.push(self.open.remove(at));
        }
    }

    pub fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut messages = std::mem::take(&mut self.full);
        messages.append(&mut self.open);
        messages.iter().map(|columns| columns.message(py)).collect()
    }
}

impl Columns {
    fn message<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let metas = PyList::new(py, self.metas.iter().map(|meta| PyBytes::new(py, meta)))?;
        let mut header = Vec::with_capacity(8);
        encoding::put_array(&mut header, self.metas.len());
        let payloads = PyBytes::new_with(py, header.len() + self.payloads.len(), |out| {
            out[..header.len()].copy_from_slice(&header);
            out[header.len()..].copy_from_slice(&self.payloads);
            Ok(())
        })?;
        (self.owner, self.cause, self.vertices.clone(), metas, self.tombstones.clone(), payloads)
            .into_pyobject(py)
    }
}
