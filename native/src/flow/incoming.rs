//! Incoming items: the columns of a peer's message, which join the next run.

use crate::flow::items::{Payload, Work};
use crate::flow::Flow;
use crate::meta::Meta;
use crate::payload::codec;
use crate::payload::row::{rows_of, Row};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

impl Flow {
    /// Its columns must fit each other and the graph.
    pub(super) fn received(
        &mut self,
        py: Python<'_>,
        cause: u64,
        vertices: Vec<usize>,
        metas: &Bound<'_, PyList>,
        tombstones: Vec<bool>,
        payloads: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        let count = vertices.len();
        if metas.len() != count
            || tombstones.len() != count
            || vertices.iter().any(|vertex| *vertex >= self.vertices.len())
        {
            return Err(PyValueError::new_err("the columns of a message do not fit each other or the graph"));
        }
        let payloads = self.payloads(py, &vertices, payloads)?;
        if payloads.len() != count {
            return Err(PyValueError::new_err("the columns of a message do not fit each other"));
        }
        for (place, payload) in payloads.into_iter().enumerate() {
            let meta = Meta::from_slice(metas.get_item(place)?.cast::<PyBytes>()?.as_bytes());
            self.arrived.push(Work {
                meta,
                cause,
                vertex: vertices[place],
                payload,
                tombstone: tombstones[place],
                place: None,
            });
        }
        Ok(())
    }

    /// A message's payloads: encoded as they are where they are taken so.
    fn payloads(
        &self,
        py: Python<'_>,
        vertices: &[usize],
        data: &Bound<'_, PyBytes>,
    ) -> PyResult<Vec<Payload>> {
        let takes_rows = |vertex: &usize| self.vertices[*vertex].takes_rows();
        let decoded = || {
            Ok(codec::decoded_many(py, data.as_bytes())?
                .into_iter()
                .map(|payload| Payload::Object(payload.unbind()))
                .collect())
        };
        if !vertices.iter().any(takes_rows) {
            return decoded();
        }
        let Ok(rows) = rows_of(data) else { return decoded() };
        let taken = |(place, row): (usize, Row)| match vertices.get(place) {
            Some(vertex) if !takes_rows(vertex) => Ok(Payload::Object(row.object(py)?.unbind())),
            _ => Ok(Payload::Row(row)),
        };
        rows.into_iter().enumerate().map(taken).collect()
    }
}
