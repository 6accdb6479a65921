//! Measures: how deep a value nests, and about how many bytes it takes. Whatever has them is a payload.

use crate::payload::encoding::parts::{
    bool_type, bytes_type, each_field, float_type, int_of, int_type, is_type, moment, str_type, tuple_type,
};
use crate::payload::encoding::Unsupported;
use crate::payload::plans::{self, Kind, MAX_DEPTH};
use crate::payload::vector;
use crate::python::objects::{self, Object};
use pyo3::ffi;
use pyo3::prelude::*;

/// How deep `value` nests, if it is a payload of at most `room` levels.
pub fn height(value: &Bound<'_, PyAny>, room: i32) -> Result<i32, Unsupported> {
    // SAFETY: `value` is alive and the GIL is held.
    unsafe { height_of(value.py(), value.as_ptr(), room, &mut 0) }
}

/// `payloads/encoding.py:checked_size`: about how many bytes `value` takes, if it is a payload.
pub fn size(value: &Bound<'_, PyAny>) -> Result<usize, Unsupported> {
    let mut size = 0;
    // SAFETY: `value` is alive and the GIL is held.
    unsafe { height_of(value.py(), value.as_ptr(), MAX_DEPTH, &mut size)? };
    Ok(size)
}

/// The count of a number, or of a container without its members, in `size` (`payloads/encoding.py:WORD`).
const WORD: usize = 8;

/// The height of a value, and its size in the same walk: `size` grows by what is met on the way.
/// SAFETY: `object` is alive and the GIL is held.
unsafe fn height_of(py: Python<'_>, object: Object, room: i32, size: &mut usize) -> Result<i32, Unsupported> {
    let kind = ffi::Py_TYPE(object);
    if is_type(kind, str_type()) {
        *size += objects::with_utf8(object, <[u8]>::len).ok_or(Unsupported)?;
        return Ok(0);
    }
    if is_type(kind, bytes_type()) {
        *size += ffi::PyBytes_Size(object) as usize;
        return Ok(0);
    }
    *size += WORD;
    if is_type(kind, int_type()) {
        return int_of(object).map(|_| 0);
    }
    if is_type(kind, tuple_type()) {
        if room <= 0 {
            return Err(Unsupported);
        }
        let mut highest = 0;
        for place in 0..objects::tuple_size(object) {
            highest = highest.max(height_of(py, objects::tuple_item(object, place), room - 1, size)?);
        }
        return Ok(highest + 1);
    }
    if is_type(kind, float_type()) || is_type(kind, bool_type()) || object == ffi::Py_None() {
        return Ok(0);
    }
    height_of_instance(py, object, kind, room, size)
}

/// SAFETY: as `height_of`.
unsafe fn height_of_instance(
    py: Python<'_>,
    object: Object,
    kind: *mut ffi::PyTypeObject,
    room: i32,
    size: &mut usize,
) -> Result<i32, Unsupported> {
    let plan = plans::of_type(py, kind).ok_or(Unsupported)?;
    if room <= 0 {
        return Err(Unsupported);
    }
    if vector::is_vector(object) {
        // not a walk, or each item would pay for the whole of a growing state
        *size += WORD * vector::size(object)?;
        return vector::height(object, room);
    }
    if matches!(plan.kind, Kind::Collection) {
        if moment(plan, object).is_some() {
            return Ok(1);
        }
        match usize::try_from(ffi::PyObject_Size(object)) {
            Ok(members) => *size += WORD * members,
            Err(_) => ffi::PyErr_Clear(), // a datetime, a Decimal: one piece, without members
        }
        let value = Bound::from_borrowed_ptr(py, object);
        let height = plan.height.bind(py).call1((value, room)).map_err(|_| Unsupported)?;
        return height.extract().map_err(|_| Unsupported);
    }
    let mut highest = 0;
    each_field(plan, object, |value| {
        highest = highest.max(height_of(py, value, room - 1, size)?);
        Ok(())
    })?;
    Ok(highest + 1)
}
