//! Maps: their entries in the order of their keys' encodings, as `collections/map.py:_to_wire` has them. Without a
//! list and a sort in Python, which hold a worker up when a large state is stored in full.

use crate::payload::encoding::parts::{bytes_type, is_type};
use crate::payload::encoding::values::put_object;
use crate::payload::encoding::wire::{put_array, put_unsigned};
use crate::payload::encoding::{Encoded, Unsupported};
use crate::payload::plans::MAX_DEPTH;
use crate::python::objects::Object;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::ops::Range;

/// The tag of `fs.Map` (`collections/map.py:MAP_TAG`).
pub const MAP_TAG: u32 = 2;

type Entry<'py> = (Range<usize>, Bound<'py, PyAny>);

/// Append the encoding of a Map. SAFETY: as `put_object`.
pub(super) unsafe fn put_map(py: Python<'_>, out: &mut Vec<u8>, object: Object, room: i32) -> Encoded {
    let map = Bound::from_borrowed_ptr(py, object);
    let mut keys = Vec::new();
    let mut entries = read(py, &map, &mut keys).map_err(|_| Unsupported)?;
    // equal Maps must have equal bytes, whatever their history (!)
    entries.sort_unstable_by(|one, other| keys[one.0.clone()].cmp(&keys[other.0.clone()]));
    put_array(out, 2 * entries.len() + 1);
    put_unsigned(out, MAP_TAG as u64);
    for (key, value) in &entries {
        out.extend_from_slice(&keys[key.clone()]);
        put_object(py, out, value.as_ptr(), room - 1)?;
    }
    Ok(())
}

/// Each value, and where the encoding of its key lies in `keys`.
fn read<'py>(py: Python<'py>, map: &Bound<'py, PyAny>, keys: &mut Vec<u8>) -> PyResult<Vec<Entry<'py>>> {
    let items = map.getattr(intern!(py, "_entries"))?.call_method0(intern!(py, "items"))?;
    let mut entries = Vec::new();
    for item in items.try_iter()? {
        let item = item?;
        let pair = item.cast::<PyTuple>()?;
        let (key, begin) = (pair.get_item(0)?, keys.len());
        put_key(py, keys, &key)?;
        entries.push((begin..keys.len(), pair.get_item(1)?));
    }
    Ok(entries)
}

/// A key as it is kept (`collections/keys.py`): a text or number, or any other's encoding.
fn put_key(py: Python<'_>, keys: &mut Vec<u8>, key: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: `key` is alive and the GIL is held.
    unsafe {
        if is_type(ffi::Py_TYPE(key.as_ptr()), bytes_type()) {
            keys.extend_from_slice(key.cast::<PyBytes>()?.as_bytes());
            return Ok(());
        }
        put_object(py, keys, key.as_ptr(), MAX_DEPTH)
            .map_err(|_| pyo3::exceptions::PyValueError::new_err("a key is left to the reference"))
    }
}
