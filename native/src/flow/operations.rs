//! Operations: what a vertex without state does to an item, and where its results go. The mirror of
//! `core/dataflow/operations.py`.
//!
//! Does not: call user functions (outcomes.rs) but that of an arrival, or loop (rounds.rs).

use crate::flow::outcomes::Outcome;
use crate::flow::vertex::Kind;
use crate::flow::Flow;
use crate::meta::{child, components, Meta};
use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Flow {
    /// Along all edges out of `vertex`.
    pub(super) fn forward(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        self.led_on[vertex] += 1;
        let count = self.vertices[vertex].outputs.len();
        if count == 1 {
            let output = self.vertices[vertex].outputs[0];
            return self.enter(output, meta, payload, tombstone);
        }
        for edge in 0..count {
            let output = self.vertices[vertex].outputs[edge];
            self.enter(output, child(&meta, edge), payload.clone(), tombstone)?;
        }
        Ok(())
    }

    /// Apply a vertex without state to an item.
    pub(super) fn apply(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let py = payload.py();
        let this = &self.vertices[vertex];
        match &this.kind {
            Kind::Forward => self.forward(vertex, meta, payload, tombstone),
            Kind::Loop { limit, too_often } => {
                if meta.len() - 8 > *limit && components(&meta) > *limit {
                    let error = too_often.bind(py).clone();
                    return self.failed(vertex, &meta, error, tombstone);
                }
                self.round(vertex, meta, payload, tombstone)
            }
            Kind::Map | Kind::FlatMap | Kind::Filter if this.batch.is_some() => {
                self.asked_alone(vertex, meta, payload, tombstone)
            }
            Kind::Map | Kind::FlatMap | Kind::Filter => self.applied(vertex, meta, payload, tombstone),
            Kind::Arrival => self.arrived(vertex, meta, payload, tombstone),
            Kind::Grouping | Kind::Reduce | Kind::Folded | Kind::Sink => {
                Err(PyAssertionError::new_err("a keyed vertex is entered by its place"))
            }
        }
    }

    fn applied(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let outcome = self.outcome(vertex, &payload);
        self.leads_to(vertex, meta, outcome, tombstone, || Ok(payload))
    }

    /// Lead on what was made of an item. `payload`: the item itself, if that is needed.
    pub(super) fn leads_to<'py>(
        &mut self,
        vertex: usize,
        meta: Meta,
        outcome: Outcome<'py>,
        tombstone: bool,
        payload: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        match outcome {
            Outcome::One(made) => self.forward(vertex, meta, made, tombstone),
            Outcome::Passed => self.forward(vertex, meta, payload()?, tombstone),
            Outcome::Nothing => Ok(()),
            Outcome::Several(all) => {
                for (index, made) in all.into_iter().enumerate() {
                    self.forward(vertex, child(&meta, index), made, tombstone)?;
                }
                Ok(())
            }
            Outcome::Error(error) => self.failed(vertex, &meta, error, tombstone),
            Outcome::Raised(error) => self.raised(vertex, &meta, error, &payload()?, tombstone),
        }
    }

    /// Its place is given to the function too: when its record arrived is there, as the journal has it (!).
    fn arrived(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let function = self.vertices[vertex]
            .function
            .as_ref()
            .expect("the graph's builder gives every operation its functions");
        let outcome = function
            .bind(payload.py())
            .call1((&payload, PyBytes::new(payload.py(), &meta)))
            .and_then(|made| self.settled(vertex, made))
            .unwrap_or_else(Outcome::Raised);
        self.leads_to(vertex, meta, outcome, tombstone, || Ok(payload))
    }
}
