//! The functions of `model/payloads/encoding.py` that are worth calling natively.

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

/// The encoding of an item, to be joined to others by `join_items`.
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
    PyList::new(py, decoded_many(py, data)?).map(Bound::into_any)
}

/// The payloads one by one, as the reference reads what this does not.
pub fn decoded_many<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut reader = Reader::new(data);
    let read = (|| {
        let count = reader.array()?;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(reader.value(py, MAX_DEPTH)?);
        }
        if reader.at_end() {
            Ok(values)
        } else {
            Err(Unsupported)
        }
    })();
    match read {
        Ok(values) => Ok(values),
        Err(_) => reference::decode_many(py, data)?.try_iter()?.collect(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use pyo3::ffi::c_str;
    use std::ffi::CStr;

    const GOOD: [&CStr; 12] = [
        c_str!("None"),
        c_str!("True"),
        c_str!("-1.5"),
        c_str!("0"),
        c_str!("-33"),
        c_str!("-2**63"),
        c_str!("2**64 - 1"),
        c_str!("'word' * 100"),
        c_str!("'\\u00fc\\u4e2d\\U0001f600'"),
        c_str!("b'\\x00' * 70000"),
        c_str!("()"),
        c_str!("(1, ('a', (b'b', None)), 2.0)"),
    ];
    const BAD: [&CStr; 5] =
        [c_str!("2**64"), c_str!("-2**63 - 1"), c_str!("'\\ud800'"), c_str!("object()"), c_str!("[1]")];

    fn encoded(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        encoding::put(value.py(), &mut out, value).ok().map(|()| out)
    }

    #[test]
    fn a_payload_comes_back_equal_and_again_as_the_same_bytes() {
        Python::initialize();
        Python::attach(|py| {
            for text in GOOD {
                let value = py.eval(text, None, None).unwrap();
                let data = encoded(&value).unwrap();
                let mut reader = Reader::new(&data);
                let back = reader.value(py, MAX_DEPTH).ok().unwrap();
                assert!(reader.at_end() && back.eq(&value).unwrap(), "{text:?}");
                assert_eq!(encoded(&back), Some(data.clone()), "{text:?}");
                let mut skipping = Reader::new(&data);
                assert!(skipping.skip(MAX_DEPTH).is_ok() && skipping.at_end(), "{text:?}");
            }
        });
    }

    #[test]
    fn what_is_no_payload_is_left_to_the_reference_and_leaves_no_error_behind() {
        Python::initialize();
        Python::attach(|py| {
            for text in BAD {
                assert_eq!(encoded(&py.eval(text, None, None).unwrap()), None, "{text:?}");
                assert!(!PyErr::occurred(py), "{text:?}");
            }
        });
    }

    #[test]
    fn a_payload_that_was_cut_off_is_never_read_beyond_its_end() {
        Python::initialize();
        Python::attach(|py| {
            for text in GOOD {
                let data = encoded(&py.eval(text, None, None).unwrap()).unwrap();
                for end in 0..data.len().min(600) {
                    let mut reader = Reader::new(&data[..end]);
                    assert!(reader.value(py, MAX_DEPTH).is_err(), "{text:?} up to {end}");
                }
            }
        });
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        Python::initialize();
        Python::attach(|py| {
            let mut state = 1u64; // xorshift: the same bytes in every run
            for _ in 0..20_000 {
                let mut data = Vec::new();
                for _ in 0..12 {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    data.push(state as u8);
                }
                let mut reader = Reader::new(&data);
                let _ = reader.value(py, MAX_DEPTH);
                assert!(reader.at() <= data.len());
                PyErr::take(py);
            }
        });
    }

    #[test]
    fn depth_is_bounded() {
        Python::initialize();
        Python::attach(|py| {
            let nested = |depth: i32| {
                (1..depth).fold(PyTuple::empty(py).into_any(), |inner, _| {
                    PyTuple::new(py, [inner]).unwrap().into_any()
                })
            };
            assert!(encoded(&nested(MAX_DEPTH)).is_some());
            assert!(encoded(&nested(MAX_DEPTH + 1)).is_none());
        });
    }
}
