//! Expressions: functions that are said by operations on fields, evaluated without Python; the mirror of
//! `model/expressions`, described by `core/dataflow/native_expressions.py`.
//!
//! Numbers and truth values are computed here as far as 64 bits and Python agree; all else is done by the
//! objects' own types, through the functions that Python's own signs use. Where anything is refused or fails
//! there is no value: then the Python function is asked, and what it raises is the error (!).

mod calls;
mod description;
mod nodes;
mod signs;
mod values;

use crate::payload::expression::nodes::{Item, Node};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// An expression, of an item of this form or that.
pub struct Expression(Node);

impl Expression {
    /// Its value for an object; None: Python must be asked.
    pub fn of<'py>(&self, item: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        self.0.value(Item::Object(item))?.object(item.py())
    }

    /// Its value for an encoded payload; None: Python must be asked.
    pub fn of_row<'py>(&self, py: Python<'py>, row: &[u8]) -> Option<Bound<'py, PyAny>> {
        self.0.value(Item::Row(py, row))?.object(py)
    }

    /// An expression from its description (native_expressions.py).
    pub fn described(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        Node::described(described).map(Expression)
    }
}

/// (value,) of a described expression, for a payload or for its encoding; None: Python must be asked. What a
/// graph's vertices do, for tests.
#[pyfunction]
pub fn evaluated<'py>(
    described: &Bound<'py, PyAny>,
    payload: &Bound<'py, PyAny>,
    encoded: bool,
) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
    let expression = Expression::described(described)?;
    let value = if encoded {
        expression.of_row(payload.py(), payload.cast::<PyBytes>()?.as_bytes())
    } else {
        expression.of(payload)
    };
    Ok(value.map(|value| (value,)))
}
