//! Values: a walk over a payload that writes it.

use crate::payload::encoding::map::{put_map, MAP_TAG};
use crate::payload::encoding::parts::{
    bool_type, bytes_type, each_field, float_type, int_of, int_type, is_type, moment, str_type, tuple_type,
    Int,
};
use crate::payload::encoding::wire::{put_array, put_bytes, put_float, put_int, put_str, put_unsigned};
use crate::payload::encoding::{Encoded, Unsupported};
use crate::payload::plans::{self, Kind, MAX_DEPTH, TUPLE_TAG};
use crate::payload::vector;
use crate::python::moments::DATETIME_TAG;
use crate::python::objects::{self, Object};
use pyo3::ffi;
use pyo3::prelude::*;

/// Append the canonical encoding of `value`. `room`: levels of containers that are still allowed.
pub fn put(py: Python<'_>, out: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> Encoded {
    // SAFETY: `value` is alive and the GIL is held.
    unsafe { put_object(py, out, value.as_ptr(), MAX_DEPTH) }
}

/// SAFETY: `object` is alive and the GIL is held.
pub unsafe fn put_object(py: Python<'_>, out: &mut Vec<u8>, object: Object, room: i32) -> Encoded {
    let kind = ffi::Py_TYPE(object);
    if is_type(kind, str_type()) {
        return objects::with_utf8(object, |text| put_str(out, text)).ok_or(Unsupported);
    }
    if is_type(kind, int_type()) {
        match int_of(object)? {
            Int::Signed(value) => put_int(out, value),
            Int::Unsigned(value) => put_unsigned(out, value),
        }
        return Ok(());
    }
    if is_type(kind, tuple_type()) {
        if room <= 0 {
            return Err(Unsupported);
        }
        let size = objects::tuple_size(object) as usize;
        put_array(out, size + 1);
        out.push(TUPLE_TAG as u8);
        for place in 0..size {
            put_object(py, out, objects::tuple_item(object, place as isize), room - 1)?;
        }
        return Ok(());
    }
    put_rare(py, out, object, kind, room)
}

/// SAFETY: as `put_object`.
unsafe fn put_rare(
    py: Python<'_>,
    out: &mut Vec<u8>,
    object: Object,
    kind: *mut ffi::PyTypeObject,
    room: i32,
) -> Encoded {
    if is_type(kind, float_type()) {
        put_float(out, objects::float(object));
    } else if object == ffi::Py_None() {
        out.push(0xc0);
    } else if is_type(kind, bool_type()) {
        out.push(if object == ffi::Py_True() { 0xc3 } else { 0xc2 });
    } else if is_type(kind, bytes_type()) {
        let data = std::slice::from_raw_parts(
            ffi::PyBytes_AsString(object) as *const u8,
            ffi::PyBytes_Size(object) as usize,
        );
        put_bytes(out, data);
    } else {
        return put_instance(py, out, object, kind, room);
    }
    Ok(())
}

/// SAFETY: as `put_object`.
unsafe fn put_instance(
    py: Python<'_>,
    out: &mut Vec<u8>,
    object: Object,
    kind: *mut ffi::PyTypeObject,
    room: i32,
) -> Encoded {
    let plan = plans::of_type(py, kind).ok_or(Unsupported)?;
    if room <= 0 {
        return Err(Unsupported);
    }
    if vector::is_vector(object) {
        put_array(out, vector::size(object)? + 1);
        put_unsigned(out, plan.tag as u64);
        return vector::values_from(object, 0, &mut |value| put_object(py, out, value, room - 1));
    }
    if matches!(plan.kind, Kind::Collection) {
        if let Some(microseconds) = moment(plan, object) {
            out.extend_from_slice(&[0x93, DATETIME_TAG as u8]);
            put_int(out, microseconds);
            out.push(0);
            return Ok(());
        }
        if plan.tag == MAP_TAG {
            return put_map(py, out, object, room);
        }
        let value = Bound::from_borrowed_ptr(py, object);
        let wire = plan.to_wire.bind(py).call1((value, room)).map_err(|_| Unsupported)?;
        return put_wire(py, out, wire.as_ptr());
    }
    put_array(out, plan.fields.len() + 1);
    put_unsigned(out, plan.tag as u64);
    each_field(plan, object, |value| put_object(py, out, value, room - 1))
}

/// A wire that a Python plan made: scalars and lists of wires. What else is in it (`msgspec.Raw`) is its
/// encoding. SAFETY: as `put_object`.
unsafe fn put_wire(py: Python<'_>, out: &mut Vec<u8>, wire: Object) -> Encoded {
    let kind = ffi::Py_TYPE(wire);
    if ffi::PyList_CheckExact(wire) != 0 {
        let size = objects::list_size(wire) as usize;
        put_array(out, size);
        for place in 0..size {
            put_wire(py, out, objects::list_item(wire, place as isize))?;
        }
        return Ok(());
    }
    if is_type(kind, tuple_type()) || plans::of_type(py, kind).is_some() {
        return Err(Unsupported);
    }
    let known = [str_type(), int_type(), float_type(), bool_type(), bytes_type()].contains(&kind)
        || wire == ffi::Py_None();
    if known {
        return put_object(py, out, wire, 0);
    }
    let mut buffer = std::mem::MaybeUninit::<ffi::Py_buffer>::uninit();
    if ffi::PyObject_GetBuffer(wire, buffer.as_mut_ptr(), ffi::PyBUF_SIMPLE) != 0 {
        ffi::PyErr_Clear();
        return Err(Unsupported);
    }
    let mut buffer = buffer.assume_init();
    out.extend_from_slice(std::slice::from_raw_parts(buffer.buf as *const u8, buffer.len as usize));
    ffi::PyBuffer_Release(&mut buffer);
    Ok(())
}
