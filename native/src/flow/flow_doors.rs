//! The dataflow of a batch: records enter, rows of keyed vertices are folded, and what stands at a door
//! becomes a row (doors.rs).

use crate::flow::doors::{Given, Numbers, Rows};
use crate::flow::items::Payload;
use crate::flow::stages::Ahead;
use crate::flow::states::State;
use crate::flow::vertex::Kind;
use crate::flow::Flow;
use crate::meta::{child, Meta};
use crate::payload::codec;
use crate::payload::row::object_of;
use pyo3::exceptions::{PyAssertionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::ops::Range;

/// Records that vectorised functions are asked about at once.
const CHUNK: usize = 1024;

/// The part of a batch that is of the key which it is at.
#[derive(Default)]
pub struct Held {
    vertex: usize,
    key: Vec<u8>,
    accumulator: Option<Py<PyAny>>,
    window: Vec<Py<PyAny>>,
}

/// Records whose results are made ahead.
pub struct Chunk {
    first: usize,
    ahead: Ahead,
}

impl Flow {
    /// Records of one run, from number `at` on, until rows are full: the number of the next.
    pub(super) fn entered(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        start: &Meta,
        first: usize,
        records: &Bound<'_, PyList>,
        at: usize,
    ) -> PyResult<usize> {
        let mut chunk = self.chunk.take().filter(|_| at > 0);
        for number in at..records.len() {
            let (meta, record) = (child(start, first + number), records.get_item(number)?);
            if self.is_error(&record) {
                self.error_item(meta, record, false)?;
            } else if self.outlooks.is_none() {
                self.apply(vertex, meta, record, false)?;
                self.settle(py)?;
            } else {
                let chunk = match &mut chunk {
                    Some(chunk) if number < chunk.first + CHUNK => chunk,
                    _ => chunk.insert(self.chunk_of(py, vertex, records, number)?),
                };
                let place = number - chunk.first;
                if chunk.ahead.has(place) {
                    self.go_ahead(py, &chunk.ahead, place, meta, Payload::Object(record.unbind()), false)?;
                } else {
                    self.apply(vertex, meta, record, false)?;
                }
                self.settle(py)?;
            }
            if self.rows_full() {
                self.chunk = chunk;
                return Ok(number + 1);
            }
        }
        Ok(records.len())
    }

    fn chunk_of(
        &self,
        py: Python<'_>,
        vertex: usize,
        records: &Bound<'_, PyList>,
        first: usize,
    ) -> PyResult<Chunk> {
        let mut payloads = Vec::new();
        for number in first..records.len().min(first + CHUNK) {
            let record = records.get_item(number)?;
            payloads.push(if self.is_error(&record) { None } else { Some(Payload::Object(record.unbind())) });
        }
        let ahead =
            self.ahead(py, payloads.iter().map(|payload| payload.as_ref().map(|payload| (vertex, payload))))?;
        Ok(Chunk { first, ahead })
    }

    fn rows_full(&self) -> bool {
        self.rows.as_ref().is_some_and(Rows::full)
    }

    /// Rows of these columns, until rows are full: the number of the next.
    pub(super) fn fold_given(
        &mut self,
        py: Python<'_>,
        to: Numbers,
        key: Given,
        meta: Given,
        payload: Given,
        rows: Range<usize>,
    ) -> PyResult<usize> {
        let count = rows.end;
        for row in rows {
            let vertex = to.at(row)? as usize;
            let value = codec::decode(py, payload.at(row)?)?;
            self.fold_row(vertex, key.at(row)?, Meta::from_slice(meta.at(row)?), value)?;
            self.settle(py)?;
            if self.rows_full() {
                return Ok(row + 1);
            }
        }
        Ok(count)
    }

    fn fold_row(&mut self, vertex: usize, key: &[u8], meta: Meta, payload: Bound<'_, PyAny>) -> PyResult<()> {
        let py = payload.py();
        if self.held.vertex != vertex || self.held.key != key {
            self.held = Held { vertex, key: key.to_vec(), accumulator: None, window: Vec::new() };
        }
        match self
            .states
            .get(&vertex)
            .ok_or_else(|| PyValueError::new_err(format!("vertex {vertex} has no state")))?
        {
            State::Reduce(state) => {
                let before = self.held.accumulator.take().map(|value| value.into_bound(py));
                let (after, result) = state.fold.step(&self.tools, before, &payload)?;
                self.held.accumulator = Some(after.unbind());
                self.changed(vertex, meta, result, false)
            }
            State::Grouping(state) => {
                let window = &mut self.held.window;
                window.push(payload.unbind());
                if window.len() > state.window {
                    window.remove(0);
                }
                let result = PyTuple::new(py, window.iter())?.into_any();
                self.forward(vertex, meta, result, false)
            }
            State::Folded(_) | State::Shards(_) | State::Transactions(_) => {
                Err(PyAssertionError::new_err("a batch folds objects"))
            }
        }
    }

    /// An item at a door of a batch.
    pub(super) fn at_door(
        &mut self,
        vertex: usize,
        key: &[u8],
        slot: u16,
        meta: Meta,
        payload: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let key = match self.vertices[vertex].kind {
            Kind::Grouping | Kind::Reduce | Kind::Folded => key,
            Kind::Sink => &[],
            _ => return self.apply(vertex, meta, payload, false),
        };
        let error = vertex == self.errors;
        self.rows.as_mut().expect("a batch collects rows").add(vertex, slot, key, &meta, &payload, error)
    }

    /// A row that comes to a door of a batch.
    pub(super) fn row_at_door(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        meta: Meta,
        bytes: &[u8],
    ) -> PyResult<()> {
        let (key, slot) = match self.row_place(py, vertex, bytes)? {
            Ok(place) => place,
            Err(error) => return self.failed_at_door(vertex, &meta, error, false),
        };
        let key: &[u8] = match self.vertices[vertex].kind {
            Kind::Grouping | Kind::Reduce | Kind::Folded => &key,
            Kind::Sink => &[],
            _ => return self.apply(vertex, meta, object_of(py, bytes)?, false),
        };
        self.rows.as_mut().expect("a batch collects rows").add_encoded(vertex, slot, key, &meta, bytes)
    }
}
