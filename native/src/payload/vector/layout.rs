//! Layout: where the parts of a Vector lie, which are read in place.

use crate::payload::encoding::Unsupported;
use crate::payload::vector::append::APPEND;
use crate::python::objects::{self, Object};
use crate::python::slots;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::cell::UnsafeCell;

pub(super) const BITS: usize = 5;
pub(super) const WIDTH: usize = 1 << BITS;

pub(super) struct Layout {
    pub(super) class: Py<PyType>,
    pub(super) size: isize,
    pub(super) level: isize,
    pub(super) root: isize,
    pub(super) tail: isize,
    pub(super) counts: isize,
    /// `Vector.append` in Python, for what is refused.
    pub(super) append: Py<PyAny>,
    /// `trie.pushed` and `heights.with_height`.
    pub(super) pushed: Py<PyAny>,
    pub(super) with_height: Py<PyAny>,
}

struct Guarded(UnsafeCell<Option<Layout>>);
// SAFETY: set once, under the GIL, before any Vector exists.
unsafe impl Sync for Guarded {}
static LAYOUT: Guarded = Guarded(UnsafeCell::new(None));

pub(super) fn layout() -> Option<&'static Layout> {
    // SAFETY: see Guarded.
    unsafe { (*LAYOUT.0.get()).as_ref() }
}

/// Give `class` (fs.Vector) the native `append`, and know its instances from now on.
#[pyfunction]
pub fn install_vector(
    class: &Bound<'_, PyType>,
    append: Py<PyAny>,
    pushed: Py<PyAny>,
    with_height: Py<PyAny>,
) -> PyResult<()> {
    let py = class.py();
    let offset = |name: &str| {
        let name = pyo3::types::PyString::new(py, name).into_any();
        slots::offset(class.as_any(), &name)
            .ok_or_else(|| PyTypeError::new_err(format!("Vector has no slot {name}")))
    };
    let made = Layout {
        class: class.clone().unbind(),
        size: offset("_size")?,
        level: offset("_level")?,
        root: offset("_root")?,
        tail: offset("_tail")?,
        counts: offset("_counts")?,
        append,
        pushed,
        with_height,
    };
    // SAFETY: under the GIL; the method's definition is static.
    unsafe {
        *LAYOUT.0.get() = Some(made);
        let method = ffi::PyDescr_NewMethod(class.as_ptr() as *mut ffi::PyTypeObject, APPEND.0.get());
        class.setattr("append", Bound::from_owned_ptr_or_err(py, method)?)
    }
}

/// Is `object` an fs.Vector?
#[inline]
pub fn is_vector(object: Object) -> bool {
    // SAFETY: reading a type is always allowed under the GIL.
    layout().is_some_and(|layout| unsafe { ffi::Py_TYPE(object) as Object == layout.class.as_ptr() })
}

/// Is this the class of Vectors?
pub fn is_class(class: &Py<PyType>) -> bool {
    layout().is_some_and(|layout| class.as_ptr() == layout.class.as_ptr())
}

/// SAFETY: `object` is a Vector that is alive.
pub unsafe fn size(object: Object) -> Result<usize, Unsupported> {
    Ok(ffi::PyLong_AsSsize_t(slots::get(object, layout().ok_or(Unsupported)?.size)) as usize)
}

/// How many values of a Vector of this size are in its tail.
pub(super) fn in_tail(size: usize) -> usize {
    if size == 0 {
        0
    } else {
        (size - 1) % WIDTH + 1
    }
}

/// SAFETY: `object` is a tuple that is alive.
pub(super) unsafe fn len(object: Object) -> usize {
    objects::tuple_size(object) as usize
}

/// SAFETY: as `len`, and `place` is inside.
pub(super) unsafe fn item(object: Object, place: usize) -> Object {
    objects::tuple_item(object, place as isize)
}

/// A value of a tail, which is a list that versions share.
/// SAFETY: `tail` is a list that is alive, and `place` is inside.
pub(super) unsafe fn tail_item(tail: Object, place: usize) -> Object {
    objects::list_item(tail, place as isize)
}
