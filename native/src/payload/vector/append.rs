//! Append: `Vector.append` as a method of the class.

use crate::payload::encoding;
use crate::payload::plans::MAX_DEPTH;
use crate::payload::vector::layout::{in_tail, item, layout, len, Layout, BITS, WIDTH};
use crate::python::objects::{self, Object};
use crate::python::slots;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::UnsafeCell;

pub(super) struct MethodDef(pub(super) UnsafeCell<ffi::PyMethodDef>);
// SAFETY: never changed.
unsafe impl Sync for MethodDef {}
pub(super) static APPEND: MethodDef = MethodDef(UnsafeCell::new(ffi::PyMethodDef {
    ml_name: c"append".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: append },
    ml_flags: ffi::METH_O,
    ml_doc: c"With `value` at the end.".as_ptr(),
}));

/// The method itself.
/// SAFETY: Python calls it, with a Vector and any object.
unsafe extern "C" fn append(this: Object, value: Object) -> Object {
    let py = Python::assume_attached();
    match appended(py, this, value) {
        Ok(made) => made,
        Err(error) => {
            error.restore(py);
            std::ptr::null_mut()
        }
    }
}

/// A new reference.
/// SAFETY: `object` is alive, and the GIL is held.
unsafe fn reference(object: Object) -> Object {
    ffi::Py_INCREF(object);
    object
}

/// `Vector.append`, as a new reference.
/// SAFETY: `this` is a Vector, `value` any object; both are alive.
unsafe fn appended(py: Python<'_>, this: Object, value: Object) -> PyResult<Object> {
    let layout = layout().expect("a Vector's append is installed with its layout");
    let given = Bound::from_borrowed_ptr(py, value);
    let Ok(height) = encoding::height(&given, MAX_DEPTH - 1) else {
        return layout
            .append
            .bind(py)
            .call1((Bound::from_borrowed_ptr(py, this), given))
            .map(Bound::into_ptr);
    };
    let (tail, counts) = (slots::get(this, layout.tail), slots::get(this, layout.counts));
    let size = ffi::PyLong_AsSsize_t(slots::get(this, layout.size));
    let counts = counted(py, layout, counts, height)?;
    let length = in_tail(size as usize);
    let (level, root, longer) = if length < WIDTH {
        // Nobody has appended to this version yet: its list may grow, since older versions look no further
        // than their size. Else two versions grow from one, and this one gets a list of its own.
        let shared = objects::list_size(tail) as usize == length;
        let longer = if shared { reference(tail) } else { ffi::PyList_GetSlice(tail, 0, length as isize) };
        (reference(slots::get(this, layout.level)), reference(slots::get(this, layout.root)), longer)
    } else {
        let leaves = (size as usize >> BITS) - 1;
        let (old_level, old_root) = (slots::get(this, layout.level), slots::get(this, layout.root));
        let leaf = Bound::from_owned_ptr(py, ffi::PyList_AsTuple(tail));
        let arguments =
            (Bound::from_borrowed_ptr(py, old_level), Bound::from_borrowed_ptr(py, old_root), leaves, leaf);
        let (level, root): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            layout.pushed.bind(py).call1(arguments)?.extract()?;
        (level.into_ptr(), root.into_ptr(), ffi::PyList_New(0))
    };
    if longer.is_null() || ffi::PyList_Append(longer, value) != 0 {
        return Err(PyErr::fetch(py));
    }
    let made = ffi::PyType_GenericAlloc(layout.class.as_ptr() as *mut ffi::PyTypeObject, 0);
    if made.is_null() {
        return Err(PyErr::fetch(py));
    }
    slots::fill(made, layout.size, ffi::PyLong_FromSsize_t(size + 1));
    slots::fill(made, layout.level, level);
    slots::fill(made, layout.root, root);
    slots::fill(made, layout.tail, longer);
    slots::fill(made, layout.counts, counts);
    Ok(made)
}

/// `heights.with_height`, as a new reference.
/// SAFETY: `counts` is a tuple that is alive.
unsafe fn counted(py: Python<'_>, layout: &Layout, counts: Object, height: i32) -> PyResult<Object> {
    if height == 0 {
        return Ok(reference(counts));
    }
    if height == 1 && len(counts) <= 1 {
        let before = if len(counts) == 1 { ffi::PyLong_AsSsize_t(item(counts, 0)) } else { 0 };
        let made = ffi::PyTuple_New(1);
        objects::fill_tuple(made, 0, ffi::PyLong_FromSsize_t(before + 1));
        return Ok(made);
    }
    layout.with_height.bind(py).call1((Bound::from_borrowed_ptr(py, counts), height)).map(Bound::into_ptr)
}
