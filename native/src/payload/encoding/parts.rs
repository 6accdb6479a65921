//! Parts of Python's objects, read in place: their types, the number in an int, the fields of an instance.

use crate::payload::encoding::{Encoded, Unsupported};
use crate::payload::plans::Plan;
use crate::python::moments::{self, DATETIME_TAG};
use crate::python::objects::Object;
use crate::python::slots;
use pyo3::ffi;

#[inline]
pub(super) fn is_type(kind: *mut ffi::PyTypeObject, of: *mut ffi::PyTypeObject) -> bool {
    kind == of
}

macro_rules! types {
    ($($name:ident = $object:ident),*) => { $(#[inline] pub(in crate::payload::encoding) fn $name() -> *mut ffi::PyTypeObject { std::ptr::addr_of_mut!(ffi::$object) })* };
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
pub(super) enum Int {
    Signed(i64),
    Unsigned(u64),
}

/// SAFETY: `object` is an int and the GIL is held.
pub(super) unsafe fn int_of(object: Object) -> Result<Int, Unsupported> {
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

/// The microseconds of a datetime in UTC.
/// SAFETY: `object` is alive and the GIL is held.
pub(super) unsafe fn moment(plan: &Plan, object: Object) -> Option<i64> {
    if plan.tag == DATETIME_TAG {
        moments::microseconds(object)
    } else {
        None
    }
}

/// Every field of an instance, in the order of its class.
/// SAFETY: `object` is of the plan's class and alive, and the GIL is held.
#[inline(always)] // else it is a call an instance, a twentieth of what its size costs
pub(super) unsafe fn each_field(
    plan: &Plan,
    object: Object,
    mut each: impl FnMut(Object) -> Encoded,
) -> Encoded {
    if let Some(offsets) = &plan.offsets {
        for offset in offsets {
            let value = slots::get(object, *offset);
            if value.is_null() {
                return Err(Unsupported);
            }
            each(value)?;
        }
        return Ok(());
    }
    for field in &plan.fields {
        let value = ffi::PyObject_GetAttr(object, field.as_ptr());
        if value.is_null() {
            ffi::PyErr_Clear();
            return Err(Unsupported);
        }
        let done = each(value);
        ffi::Py_DECREF(value);
        done?;
    }
    Ok(())
}
