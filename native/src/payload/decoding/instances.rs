//! Instances of classes with fields, of the values that their fields have.

use crate::payload::decoding::Value;
use crate::payload::encoding::Unsupported;
use crate::payload::plans::{Kind, Plan};
use crate::python::slots;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// An instance of a class with fields, made as a decoded one is, of its fields' values in their order. None
/// if Python must make it.
pub fn made<'py>(
    py: Python<'py>,
    plan: &'static Plan,
    values: Vec<Bound<'py, PyAny>>,
) -> Option<Bound<'py, PyAny>> {
    if !matches!(plan.kind, Kind::Dataclass) {
        return built(py, plan, &values).ok();
    }
    let mut values = values.into_iter();
    instance(py, plan, || values.next().ok_or(Unsupported)).ok()
}

pub(super) fn built<'py>(py: Python<'py>, plan: &'static Plan, members: &[Bound<'py, PyAny>]) -> Value<'py> {
    let members = PyList::new(py, members).map_err(|_| Unsupported)?;
    plan.build.as_ref().ok_or(Unsupported)?.bind(py).call1((members,)).map_err(|_| Unsupported)
}

/// An instance of a dataclass; `next` gives the values of its fields in their order.
pub(super) fn instance<'py>(
    py: Python<'py>,
    plan: &'static Plan,
    mut next: impl FnMut() -> Value<'py>,
) -> Value<'py> {
    // SAFETY: a dataclass without a `__new__` of its own is made as object.__new__ makes it; fields are set
    // past the frozen `__setattr__`, as dataclasses do themselves.
    unsafe {
        let class = plan.class.as_ptr() as *mut ffi::PyTypeObject;
        let made = ffi::PyType_GenericAlloc(class, 0);
        if made.is_null() {
            ffi::PyErr_Clear();
            return Err(Unsupported);
        }
        let made = Bound::from_owned_ptr(py, made);
        if let Some(offsets) = &plan.offsets {
            for offset in offsets {
                slots::fill(made.as_ptr(), *offset, next()?.into_ptr());
            }
            return Ok(made);
        }
        for field in &plan.fields {
            let value = next()?;
            if ffi::PyObject_GenericSetAttr(made.as_ptr(), field.as_ptr(), value.as_ptr()) != 0 {
                ffi::PyErr_Clear();
                return Err(Unsupported);
            }
        }
        Ok(made)
    }
}
