//! Calls: methods of values, by the function that Python has for them.

use crate::python::moments;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The way to call a function: what is done besides.
#[derive(Clone, Copy)]
pub(super) enum How {
    Plain,
    /// `str.split`: its parts become a tuple.
    Split,
    /// `.dt.floor`, known here where the zone is UTC.
    Floor,
}

impl How {
    pub(super) fn called<'py>(
        self,
        value: &Bound<'py, PyAny>,
        function: &Bound<'py, PyAny>,
        given: &Bound<'py, PyTuple>,
    ) -> Option<Bound<'py, PyAny>> {
        let py = value.py();
        match self {
            How::Floor => {
                let every: i64 = given.get_item(0).ok()?.extract().ok()?;
                // SAFETY: the value is alive and the GIL is held.
                let floored = unsafe { moments::microseconds(value.as_ptr()) }
                    .and_then(|time| moments::datetime(py, time.div_euclid(every) * every));
                floored.or_else(|| function.call1((value, given.get_item(0).ok()?)).ok())
            }
            How::Split => {
                let parts = value.call_method1(pyo3::intern!(py, "split"), given).ok()?;
                Some(parts.cast_into::<PyList>().ok()?.to_tuple().into_any())
            }
            How::Plain => match given.len() {
                0 => function.call1((value,)).ok(),
                1 => function.call1((value, given.get_item(0).ok()?)).ok(),
                _ => function.call1((value, given.get_item(0).ok()?, given.get_item(1).ok()?)).ok(),
            },
        }
    }
}
