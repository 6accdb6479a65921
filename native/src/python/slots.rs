//! Slots of Python classes, read and written in place: what a slot's own descriptor does, without the call.

use pyo3::ffi;
use pyo3::prelude::*;
use std::os::raw::{c_char, c_int};

#[repr(C)]
struct Descriptor {
    ob_base: ffi::PyObject,
    d_type: *mut ffi::PyTypeObject,
    d_name: *mut ffi::PyObject,
    d_qualname: *mut ffi::PyObject,
    d_member: *mut Member,
}

#[repr(C)]
struct Member {
    name: *const c_char,
    kind: c_int,
    offset: ffi::Py_ssize_t,
    flags: c_int,
    doc: *const c_char,
}

/// A slot that holds an object or nothing (`T_OBJECT_EX`), as `__slots__` makes them.
const OBJECT: c_int = 16;

/// Where the slot `name` of `class` lies in an instance; None if it is not a slot of that very class.
pub fn offset(class: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> Option<isize> {
    let found = class.getattr("__dict__").and_then(|all| all.get_item(name)).ok()?;
    // SAFETY: the type is checked before the object is read as one, and its layout is CPython's from 3.11 on.
    unsafe {
        if ffi::Py_TYPE(found.as_ptr()) != std::ptr::addr_of_mut!(ffi::PyMemberDescr_Type) {
            return None;
        }
        let member = &*(*(found.as_ptr() as *mut Descriptor)).d_member;
        (member.kind == OBJECT && member.offset > 0).then_some(member.offset)
    }
}

/// The object in a slot, borrowed; null if there is none.
/// SAFETY: `offset` is that of a slot of `object`'s class, and `object` is alive.
#[inline]
pub unsafe fn get(object: *mut ffi::PyObject, offset: isize) -> *mut ffi::PyObject {
    *((object as *mut u8).offset(offset) as *mut *mut ffi::PyObject)
}

/// Fill an empty slot; takes over the reference.
/// SAFETY: as `get`, and the slot is empty.
#[inline]
pub unsafe fn fill(object: *mut ffi::PyObject, offset: isize, value: *mut ffi::PyObject) {
    *((object as *mut u8).offset(offset) as *mut *mut ffi::PyObject) = value;
}
