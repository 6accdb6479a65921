//! Event times: when things happened, as a field of theirs says it; the mirror of `model/event_time.py`'s
//! `TimeOf`, which is asked about whatever is said otherwise.

use crate::payload::attribute::Attribute;
use crate::python::moments;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

/// Times at or beyond it are none (`event_time.END_OF_TIME // 2`).
const MOST_TIME: i64 = 1 << 61;

/// Where an item has its event time.
pub struct TimeField {
    field: Attribute,
    /// Microseconds of an int; 0: times are datetimes.
    unit: i64,
}

impl TimeField {
    pub fn new(py: Python<'_>, name: &str, unit: i64) -> Self {
        TimeField { field: Attribute::new(py, name), unit }
    }

    /// Microseconds; None if Python must find them, or say what is wrong.
    #[inline]
    pub fn of(&self, item: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
        let value = match self.field.of(item) {
            Err(error) if error.is_instance_of::<PyException>(item.py()) => return Ok(None),
            value => value?,
        };
        if self.unit == 0 {
            // SAFETY: the value is alive and the GIL is held.
            return Ok(unsafe { moments::microseconds(value.as_ptr()) });
        }
        let Some(count) = value.cast_exact::<PyInt>().ok().and_then(|int| int.extract::<i64>().ok()) else {
            return Ok(None);
        };
        Ok(count.checked_mul(self.unit).filter(|time| -MOST_TIME < *time && *time < MOST_TIME))
    }
}

/// The event times of all of these; None if Python must be asked about one.
#[pyfunction]
pub fn event_times(events: &Bound<'_, PyList>, field: &str, unit: i64) -> PyResult<Option<Vec<i64>>> {
    let field = TimeField::new(events.py(), field, unit);
    events.iter().map(|event| field.of(&event)).collect()
}

/// The event time that a datetime in UTC says; None of all else.
#[pyfunction]
pub fn microseconds(value: &Bound<'_, PyAny>) -> Option<i64> {
    // SAFETY: the value is alive and the GIL is held.
    unsafe { moments::microseconds(value.as_ptr()) }
}
