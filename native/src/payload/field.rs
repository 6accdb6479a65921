//! Field: a field of an encoded payload, found by its name without decoding anything.

use crate::payload::plans::Plan;
use crate::payload::row::{fields, Bounds};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::cell::Cell;

/// A field's name, and its number in the class that was seen last.
pub struct Field {
    name: String,
    known: Cell<(*const Plan, usize)>,
}

impl Field {
    pub fn new(name: String) -> Self {
        Field { name, known: Cell::new((std::ptr::null(), 0)) }
    }

    fn number(&self, py: Python<'_>, plan: &'static Plan) -> Option<usize> {
        let (last, number) = self.known.get();
        if std::ptr::eq(last, plan) {
            return Some(number);
        }
        let is_it = |field: &Py<PyString>| field.bind(py).to_str().is_ok_and(|name| name == self.name);
        let number = plan.fields.iter().position(is_it)?;
        self.known.set((plan, number));
        Some(number)
    }

    /// The encoding of this field, alone.
    pub fn of<'a>(&self, py: Python<'_>, row: &'a [u8]) -> Option<&'a [u8]> {
        let (plan, bounds) = fields(py, row, |plan| self.number(py, plan).map_or(0, |number| number + 1))?;
        let number = self.number(py, plan)?;
        row.get(*bounds.get(number)? as usize..*bounds.get(number + 1)? as usize)
    }
}

/// A row whose fields were found.
pub struct Found<'a> {
    row: &'a [u8],
    plan: &'static Plan,
    bounds: Bounds,
}

impl<'a> Found<'a> {
    pub fn all(py: Python<'_>, row: &'a [u8]) -> Option<Self> {
        let (plan, bounds) = fields(py, row, |plan| plan.fields.len())?;
        Some(Found { row, plan, bounds })
    }

    pub fn field(&self, py: Python<'_>, field: &Field) -> Option<&'a [u8]> {
        let number = field.number(py, self.plan)?;
        Some(&self.row[self.bounds[number] as usize..self.bounds[number + 1] as usize])
    }
}

/// ("field", name).
pub fn field(described: &Bound<'_, PyTuple>) -> PyResult<Field> {
    match described.get_item(0)?.extract::<String>()?.as_str() {
        "field" => Ok(Field::new(described.get_item(1)?.extract()?)),
        other => Err(PyValueError::new_err(format!("{other} is no field"))),
    }
}
