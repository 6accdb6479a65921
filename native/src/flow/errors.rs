//! Errors: what failed becomes an error item, for the dead-letter sink or whoever is told.

use crate::flow::Flow;
use crate::meta::{child, Meta};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Flow {
    pub(super) fn is_error(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type().as_ptr() == self.error_type.as_ptr()
    }

    /// The vertex's function raised for `payload`.
    pub(super) fn raised(
        &mut self,
        vertex: usize,
        meta: &Meta,
        error: PyErr,
        payload: &Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let users = self.vertices[vertex]
            .users
            .as_ref()
            .expect("the graph's builder gives every operation its functions");
        let error = self.tools.error_of(users, error, payload)?;
        self.failed(vertex, meta, error, tombstone)
    }

    pub(super) fn failed(
        &mut self,
        vertex: usize,
        meta: &Meta,
        error: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        self.failed_where(vertex, meta, error, tombstone, false)
    }

    /// Finding an item's place failed.
    pub(super) fn failed_at_door(
        &mut self,
        vertex: usize,
        meta: &Meta,
        error: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        self.failed_where(vertex, meta, error, tombstone, true)
    }

    fn failed_where(
        &mut self,
        vertex: usize,
        meta: &Meta,
        error: Bound<'_, PyAny>,
        tombstone: bool,
        at_door: bool,
    ) -> PyResult<()> {
        let py = error.py();
        let error = self.located.bind(py).call1((vertex, PyBytes::new(py, meta), error, at_door))?;
        self.error_item(child(meta, vertex), error, tombstone)
    }

    /// It enters the sink of errors, if there is one.
    pub(super) fn error_item(
        &mut self,
        meta: Meta,
        error: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        if self.dead_letter {
            self.enter(self.errors, meta, error, tombstone)
        } else {
            self.told(&meta, error, tombstone)
        }
    }

    /// Tell whoever takes the errors of no sink.
    pub(super) fn on_error(&self, meta: &Meta, error: Bound<'_, PyAny>, tombstone: bool) -> PyResult<()> {
        let py = error.py();
        self.on_error.bind(py).call1((PyBytes::new(py, meta), error, tombstone)).map(|_| ())
    }
}
