//! Outcomes: what an ordinary function made of an item, checked.
//!
//! Keeps: one item makes a bounded number of results of a bounded size. Does not: lead them on
//! (operations.rs), or ask functions about several items at once (answers.rs).

use crate::flow::vertex::{Kind, Vertex};
use crate::flow::Flow;
use crate::python::reference;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The outcome of an ordinary function for an item.
pub enum Outcome<'py> {
    One(Bound<'py, PyAny>),
    Several(Vec<Bound<'py, PyAny>>),
    /// The item itself, of a filter.
    Passed,
    Nothing,
    /// It gave an error value.
    Error(Bound<'py, PyAny>),
    Raised(PyErr),
}

impl Flow {
    /// Call an ordinary function about an item.
    pub(super) fn outcome<'py>(&self, vertex: usize, payload: &Bound<'py, PyAny>) -> Outcome<'py> {
        let this = &self.vertices[vertex];
        if let Some(others) = this.others.as_ref().filter(|others| others.has(payload)) {
            let result = if others.itself { vec![Ok(payload.clone())] } else { Vec::new() };
            return listed(this, result.into_iter()).map_or_else(Outcome::Raised, Outcome::Several);
        }
        if let Some(part) = &this.part {
            return part.of(payload).map_or_else(Outcome::Raised, Outcome::Several);
        }
        this.called(payload).and_then(|made| self.settled(vertex, made)).unwrap_or_else(Outcome::Raised)
    }

    /// The outcome that a function's result leads to.
    pub(super) fn settled<'py>(&self, vertex: usize, made: Bound<'py, PyAny>) -> PyResult<Outcome<'py>> {
        let this = &self.vertices[vertex];
        Ok(match this.kind {
            Kind::Map | Kind::Arrival => {
                if reference::checked_size(&made)? > this.max_result_bytes {
                    return Err(reference::beyond(made.py(), "too_big_results", this.max_result_bytes));
                }
                if self.is_error(&made) {
                    Outcome::Error(made)
                } else {
                    Outcome::One(made)
                }
            }
            Kind::Filter if made.is_truthy()? => Outcome::Passed,
            Kind::Filter => Outcome::Nothing,
            _ => Outcome::Several(match made.cast_exact::<PyList>() {
                Ok(list) => listed(this, list.iter().map(Ok))?,
                Err(_) => listed(this, made.try_iter()?)?,
            }),
        })
    }
}

/// All results of a flat_map, each checked as it comes: one that never ends is not waited for.
fn listed<'py>(
    vertex: &Vertex,
    results: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let (mut checked, mut size) = (Vec::new(), 0);
    for made in results {
        let made = made?;
        size += reference::checked_size(&made)?;
        if checked.len() == vertex.max_results {
            return Err(reference::beyond(made.py(), "too_many_results", vertex.max_results));
        }
        if size > vertex.max_result_bytes {
            return Err(reference::beyond(made.py(), "too_big_results", vertex.max_result_bytes));
        }
        checked.push(made);
    }
    Ok(checked)
}
