//! Attribute: a field of payload objects, read where it lies if their class has slots.

use crate::payload::plans;
use crate::python::slots;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::Cell;

/// A field's name, and where it lies in the class that was seen last.
pub struct Attribute {
    name: Py<PyString>,
    known: Cell<(*mut ffi::PyTypeObject, isize)>,
}

impl Attribute {
    pub fn new(py: Python<'_>, name: &str) -> Self {
        Attribute { name: PyString::intern(py, name).unbind(), known: Cell::new((std::ptr::null_mut(), 0)) }
    }

    /// Its value, as `getattr` finds it.
    #[inline]
    pub fn of<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let class = object.get_type_ptr();
        let (last, offset) = self.known.get();
        if last == class || self.learn(object.py(), class) {
            let offset = if last == class { offset } else { self.known.get().1 };
            // SAFETY: the offset is that of a slot of this very class, whose plan lives for ever; the object
            // is alive.
            let value = unsafe { slots::get(object.as_ptr(), offset) };
            if !value.is_null() {
                // SAFETY: as above; the slot holds an object, of which a reference is taken.
                return Ok(unsafe { Bound::from_borrowed_ptr(object.py(), value) });
            }
        }
        object.getattr(self.name.bind(object.py()))
    }

    fn learn(&self, py: Python<'_>, class: *mut ffi::PyTypeObject) -> bool {
        let Some(plan) = plans::of_type(py, class) else { return false };
        // both are interned, so equal names are one object
        let place = plan.fields.iter().position(|field| field.is(&self.name));
        let offset = place.and_then(|place| plan.offsets.as_ref().map(|offsets| offsets[place]));
        if let Some(offset) = offset {
            self.known.set((class, offset));
        }
        offset.is_some()
    }
}
