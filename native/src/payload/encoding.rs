//! Encoding and checking payloads: the mirror of `model/payloads/encoding.py`.
//!
//! Only what succeeds is done here. Whatever cannot be encoded gives `Unsupported`, and the Python reference
//! then decides and explains.

use crate::payload::plans::{self, Kind, Plan, MAX_DEPTH, TUPLE_TAG};
use crate::payload::vector;
use crate::python::moments::{self, DATETIME_TAG};
use crate::python::objects::{self, Object};
use crate::python::slots;
use pyo3::ffi;
use pyo3::prelude::*;

/// Leave it to the Python reference: it is no payload, or of a kind that is not known here.
pub struct Unsupported;
pub type Encoded = Result<(), Unsupported>;

#[inline]
fn is_type(kind: *mut ffi::PyTypeObject, of: *mut ffi::PyTypeObject) -> bool {
    kind == of
}

macro_rules! types {
    ($($name:ident = $object:ident),*) => { $(#[inline] pub fn $name() -> *mut ffi::PyTypeObject { std::ptr::addr_of_mut!(ffi::$object) })* };
}
types!(
    str_type = PyUnicode_Type,
    int_type = PyLong_Type,
    tuple_type = PyTuple_Type,
    float_type = PyFloat_Type,
    bool_type = PyBool_Type,
    bytes_type = PyBytes_Type
);

/// An int that fits msgpack, or not.
pub enum Int {
    Signed(i64),
    Unsigned(u64),
}

/// SAFETY: `object` is an int and the GIL is held.
unsafe fn int_of(object: Object) -> Result<Int, Unsupported> {
    let mut overflow = 0;
    let value = ffi::PyLong_AsLongLongAndOverflow(object, &mut overflow);
    if overflow == 0 {
        return Ok(Int::Signed(value));
    }
    if overflow < 0 {
        return Err(Unsupported);
    }
    let value = ffi::PyLong_AsUnsignedLongLong(object);
    if value == u64::MAX && !ffi::PyErr_Occurred().is_null() {
        ffi::PyErr_Clear();
        return Err(Unsupported);
    }
    Ok(Int::Unsigned(value))
}

pub fn put_int(out: &mut Vec<u8>, value: i64) {
    if value >= 0 {
        return put_unsigned(out, value as u64);
    }
    if value >= -32 {
        out.push(value as u8);
    } else if value >= i8::MIN as i64 {
        out.extend_from_slice(&[0xd0, value as u8]);
    } else if value >= i16::MIN as i64 {
        out.push(0xd1);
        out.extend_from_slice(&(value as i16).to_be_bytes());
    } else if value >= i32::MIN as i64 {
        out.push(0xd2);
        out.extend_from_slice(&(value as i32).to_be_bytes());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    if value < 128 {
        out.push(value as u8);
    } else if value <= u8::MAX as u64 {
        out.extend_from_slice(&[0xcc, value as u8]);
    } else if value <= u16::MAX as u64 {
        out.push(0xcd);
        out.extend_from_slice(&(value as u16).to_be_bytes());
    } else if value <= u32::MAX as u64 {
        out.push(0xce);
        out.extend_from_slice(&(value as u32).to_be_bytes());
    } else {
        out.push(0xcf);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// There is one NaN.
pub fn put_float(out: &mut Vec<u8>, value: f64) {
    let canonical = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
    out.push(0xcb);
    out.extend_from_slice(&canonical.to_be_bytes());
}

fn put_sized(out: &mut Vec<u8>, size: usize, tags: [u8; 3]) {
    if size <= u8::MAX as usize && tags[0] != 0 {
        out.extend_from_slice(&[tags[0], size as u8]);
    } else if size <= u16::MAX as usize {
        out.push(tags[1]);
        out.extend_from_slice(&(size as u16).to_be_bytes());
    } else {
        out.push(tags[2]);
        out.extend_from_slice(&(size as u32).to_be_bytes());
    }
}

pub fn put_array(out: &mut Vec<u8>, size: usize) {
    if size < 16 {
        out.push(0x90 | size as u8);
    } else {
        put_sized(out, size, [0, 0xdc, 0xdd]);
    }
}

pub fn put_str(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() < 32 {
        out.push(0xa0 | text.len() as u8);
    } else {
        put_sized(out, text.len(), [0xd9, 0xda, 0xdb]);
    }
    out.extend_from_slice(text);
}

pub fn put_bytes(out: &mut Vec<u8>, data: &[u8]) {
    put_sized(out, data.len(), [0xc4, 0xc5, 0xc6]);
    out.extend_from_slice(data);
}

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
        let value = Bound::from_borrowed_ptr(py, object);
        let wire = plan.to_wire.bind(py).call1((value, room)).map_err(|_| Unsupported)?;
        return put_wire(py, out, wire.as_ptr());
    }
    put_array(out, plan.fields.len() + 1);
    put_unsigned(out, plan.tag as u64);
    if let Some(offsets) = &plan.offsets {
        for offset in offsets {
            let value = slots::get(object, *offset);
            if value.is_null() {
                return Err(Unsupported);
            }
            put_object(py, out, value, room - 1)?;
        }
        return Ok(());
    }
    for field in &plan.fields {
        let value = ffi::PyObject_GetAttr(object, field.as_ptr());
        if value.is_null() {
            ffi::PyErr_Clear();
            return Err(Unsupported);
        }
        let done = put_object(py, out, value, room - 1);
        ffi::Py_DECREF(value);
        done?;
    }
    Ok(())
}

/// The microseconds of a datetime in UTC.
/// SAFETY: as `put_object`.
unsafe fn moment(plan: &Plan, object: Object) -> Option<i64> {
    if plan.tag == DATETIME_TAG {
        moments::microseconds(object)
    } else {
        None
    }
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

/// What a number, or a container without its members, counts in `size` (`payloads/encoding.py:WORD`).
const WORD: usize = 8;

/// One walk for both: `size` grows by what is met on the way.
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
    if let Some(offsets) = &plan.offsets {
        for offset in offsets {
            let value = slots::get(object, *offset);
            if value.is_null() {
                return Err(Unsupported);
            }
            highest = highest.max(height_of(py, value, room - 1, size)?);
        }
        return Ok(highest + 1);
    }
    for field in &plan.fields {
        let value = ffi::PyObject_GetAttr(object, field.as_ptr());
        if value.is_null() {
            ffi::PyErr_Clear();
            return Err(Unsupported);
        }
        let height = height_of(py, value, room - 1, size);
        ffi::Py_DECREF(value);
        highest = highest.max(height?);
    }
    Ok(highest + 1)
}
