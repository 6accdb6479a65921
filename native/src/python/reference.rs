//! The Python reference: what is called where this kernel does not know, so that refusals and their messages
//! are made in one place.

use crate::payload::encoding;
use crate::payload::plans::MAX_DEPTH;
use pyo3::exceptions::{PyException, PyMemoryError, PyRecursionError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static CHECK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DECODE_MANY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DECODE_ITEMS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static HEIGHT_OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static CHECKED_SIZE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// `payloads/encoding.py` hands over its functions once.
#[pyfunction]
#[pyo3(signature = (*, encode, check, decode, decode_many, decode_items, height_of, checked_size))]
pub fn refer_to(
    py: Python<'_>,
    encode: Py<PyAny>,
    check: Py<PyAny>,
    decode: Py<PyAny>,
    decode_many: Py<PyAny>,
    decode_items: Py<PyAny>,
    height_of: Py<PyAny>,
    checked_size: Py<PyAny>,
) {
    let all = [
        (&ENCODE, encode),
        (&CHECK, check),
        (&DECODE, decode),
        (&DECODE_MANY, decode_many),
        (&DECODE_ITEMS, decode_items),
        (&HEIGHT_OF, height_of),
        (&CHECKED_SIZE, checked_size),
    ];
    for (cell, function) in all {
        let _ = cell.set(py, function);
    }
}

fn call<'py>(
    py: Python<'py>,
    cell: &PyOnceLock<Py<PyAny>>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    cell.get(py).expect("payloads/encoding.py refers to itself when it is imported").bind(py).call1((value,))
}

/// Encode as the reference does, behind `out` as far as it was good; the PayloadError if it is no payload.
pub fn refused(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    out.clear();
    let encoded = call(value.py(), &ENCODE, value)?;
    out.extend_from_slice(encoded.cast::<PyBytes>()?.as_bytes());
    Ok(())
}

/// Most payloads and keys are below this.
const USUAL_BYTES: usize = 64;

/// The encoding of `value`, as `append` makes it.
pub fn encoded(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(USUAL_BYTES);
    append(value, &mut out)?;
    Ok(out)
}

/// Append the encoding of `value`, as `refused` does if need be.
pub fn append(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let start = out.len();
    if encoding::put(value.py(), out, value).is_err() {
        out.truncate(start);
        let encoded = call(value.py(), &ENCODE, value)?;
        out.extend_from_slice(encoded.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}

pub fn decode<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    call(py, &DECODE, PyBytes::new(py, data).as_any())
}

pub fn decode_many<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    call(py, &DECODE_MANY, PyBytes::new(py, data).as_any())
}

pub fn decode_items<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    call(py, &DECODE_ITEMS, PyBytes::new(py, data).as_any())
}

pub fn height_of<'py>(value: &Bound<'py, PyAny>, room: i32) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    HEIGHT_OF
        .get(py)
        .expect("payloads/encoding.py refers to itself when it is imported")
        .bind(py)
        .call1((value, room))
}

/// Raise PayloadError unless `value` is a payload.
pub fn check(value: &Bound<'_, PyAny>) -> PyResult<()> {
    match encoding::height(value, MAX_DEPTH) {
        Ok(_) => Ok(()),
        Err(_) => call(value.py(), &CHECK, value).map(|_| ()),
    }
}

/// About how many bytes `value` takes. Raises PayloadError unless it is a payload.
pub fn checked_size(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    match encoding::size(value) {
        Ok(size) => Ok(size),
        Err(_) => call(value.py(), &CHECKED_SIZE, value)?.extract(),
    }
}

/// More than a function may make of one item: what `errors` calls it.
pub fn beyond(py: Python<'_>, what: &str, limit: usize) -> PyErr {
    py.import("flamestream.model.errors")
        .and_then(|errors| errors.call_method1(what, (limit,)))
        .map_or_else(|error| error, PyErr::from_value)
}

/// A tombstone whose item is not there (`errors.unmatched`).
pub fn unmatched(py: Python<'_>, place: &str, meta: &[u8]) -> PyErr {
    let made = py
        .import("flamestream.model.errors")
        .and_then(|errors| errors.call_method1("unmatched", (place, PyBytes::new(py, meta))));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// How errors of user code become items.
pub struct Tools {
    /// `failure.failure(function, exception, payload) -> ErrorValue`.
    pub make_error: Py<PyAny>,
}

impl Tools {
    pub fn check(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        check(value)
    }

    /// The error item's payload; the exception itself where it says nothing about the record.
    pub fn error_of<'py>(
        &self,
        function: &Py<PyAny>,
        error: PyErr,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = payload.py();
        let fatal = error.is_instance_of::<PyMemoryError>(py) || error.is_instance_of::<PyRecursionError>(py);
        if fatal || !error.is_instance_of::<PyException>(py) {
            return Err(error);
        }
        self.make_error.bind(py).call1((function, error.into_value(py), payload))
        // with its traceback
    }
}
