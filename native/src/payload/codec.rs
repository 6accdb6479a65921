//! The functions of `model/payload_codec.py` that are worth calling natively.

use crate::payload::decoding::Reader;
use crate::payload::encoding::{self, Unsupported};
use crate::payload::plans::MAX_DEPTH;
use crate::python::reference;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// The canonical encoding. Raises PayloadError.
#[pyfunction]
pub fn encode<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(value.py(), &reference::encoded(value)?))
}

/// Several payloads as one array.
#[pyfunction]
pub fn encode_many<'py>(py: Python<'py>, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::with_capacity(256);
    encoding::put_array(&mut out, values.len()?);
    for value in values.try_iter()? {
        reference::append(&value?, &mut out)?;
    }
    Ok(PyBytes::new(py, &out))
}

fn put_item(out: &mut Vec<u8>, meta: &[u8], value: &Bound<'_, PyAny>) -> PyResult<()> {
    encoding::put_array(out, 2);
    encoding::put_bytes(out, meta);
    reference::append(value, out)
}

/// One item, to be joined to others by `join_items`.
#[pyfunction]
pub fn encode_item<'py>(meta: &[u8], value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::with_capacity(64);
    put_item(&mut out, meta, value)?;
    Ok(PyBytes::new(value.py(), &out))
}

/// Items, each its meta and its payload, as one array.
#[pyfunction]
pub fn encode_items<'py>(py: Python<'py>, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::with_capacity(256);
    encoding::put_array(&mut out, items.len()?);
    for item in items.try_iter()? {
        let item = item?.cast_into::<PyTuple>()?;
        put_item(&mut out, item.get_item(0)?.cast::<PyBytes>()?.as_bytes(), &item.get_item(1)?)?;
    }
    Ok(PyBytes::new(py, &out))
}

/// The payload of an encoding. Raises Corrupt.
#[pyfunction]
pub fn decode<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = Reader::new(data);
    match reader.value(py, MAX_DEPTH) {
        Ok(value) if reader.at_end() => Ok(value),
        _ => reference::decode(py, data),
    }
}

/// The payloads of `encode_many`. Raises Corrupt.
#[pyfunction]
pub fn decode_many<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    PyList::new(py, crate::flow::decode_many(py, data)?).map(Bound::into_any)
}

/// The items of `encode_items`. Raises Corrupt.
#[pyfunction]
pub fn decode_items<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match items(py, data) {
        Ok(items) => PyList::new(py, items).map(Bound::into_any),
        Err(_) => reference::decode_items(py, data),
    }
}

type Item<'py> = (Bound<'py, PyBytes>, Bound<'py, PyAny>);

pub fn items<'py>(py: Python<'py>, data: &[u8]) -> Result<Vec<Item<'py>>, Unsupported> {
    let mut reader = Reader::new(data);
    let mut items = Vec::new();
    for _ in 0..reader.array()? {
        if reader.array()? != 2 {
            return Err(Unsupported);
        }
        let meta = PyBytes::new(py, reader.bytes()?);
        items.push((meta, reader.value(py, MAX_DEPTH)?));
    }
    if reader.at_end() {
        Ok(items)
    } else {
        Err(Unsupported)
    }
}

/// Raise PayloadError unless `value` is a payload.
#[pyfunction]
pub fn check(value: &Bound<'_, PyAny>) -> PyResult<()> {
    reference::check(value)
}

/// About how many bytes a payload takes. Raises PayloadError unless it is one.
#[pyfunction]
pub fn checked_size(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    reference::checked_size(value)
}

/// Levels of containers in a payload. Raises PayloadError unless it is one and has at most `room`.
#[pyfunction]
#[pyo3(signature = (value, room = MAX_DEPTH))]
pub fn height_of<'py>(value: &Bound<'py, PyAny>, room: i32) -> PyResult<Bound<'py, PyAny>> {
    match encoding::height(value, room) {
        Ok(height) => Ok(height.into_pyobject(value.py())?.into_any()),
        Err(_) => reference::height_of(value, room),
    }
}
