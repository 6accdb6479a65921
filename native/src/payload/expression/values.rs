//! Values: numbers and truth values without an object of Python's, as long as none is asked for.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use pyo3::IntoPyObjectExt;

pub(super) enum Value<'py> {
    Int(i64),
    Float(f64),
    Bool(bool),
    Object(Bound<'py, PyAny>),
}

use Value::{Bool, Float, Int, Object};

/// Whole numbers up to here are floats too.
const EXACT: u64 = 1 << 53;

impl<'py> Value<'py> {
    #[inline]
    pub(super) fn of(object: Bound<'py, PyAny>) -> Self {
        if let Ok(int) = object.cast_exact::<PyInt>() {
            return int.extract().map_or_else(|_| Object(object), Int);
        }
        if let Ok(float) = object.cast_exact::<PyFloat>() {
            return Float(float.value());
        }
        match object.cast_exact::<PyBool>() {
            Ok(truth) => Bool(truth.is_true()),
            Err(_) => Object(object),
        }
    }

    pub(super) fn object(self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Int(value) => value.into_bound_py_any(py).ok(),
            Float(value) => Some(PyFloat::new(py, value).into_any()),
            Bool(value) => Some(PyBool::new(py, value).to_owned().into_any()),
            Object(object) => Some(object),
        }
    }

    /// As a float, where that is the same number.
    pub(super) fn exact(&self) -> Option<f64> {
        match self {
            Int(value) if value.unsigned_abs() <= EXACT => Some(*value as f64),
            Float(value) => Some(*value),
            _ => None,
        }
    }
}
