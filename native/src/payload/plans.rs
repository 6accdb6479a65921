//! Plans: which Python types are payloads, mirrored from `model/payloads/registry.py` by `register`.
//!
//! Plans live for ever (a process registers each class once), so a reference to one is never stale. Guarded
//! by the GIL.

use crate::python::slots;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use std::cell::UnsafeCell;
use std::collections::HashMap;

/// How deep containers may nest (`payloads/registry.py:MAX_DEPTH`).
pub const MAX_DEPTH: i32 = 64;
pub const TUPLE_TAG: u32 = 0;

pub enum Kind {
    /// A frozen dataclass: fields are read and set directly.
    Dataclass,
    /// Built by its Python plan from a list of members (a msgspec struct, a pydantic model).
    Built,
    /// A collection, or a value in one piece: the Python plan makes its wire and reads it.
    Collection,
}

pub struct Plan {
    pub class: Py<PyType>,
    pub tag: u32,
    pub kind: Kind,
    pub fields: Vec<Py<PyString>>,
    /// Where the fields lie, if all are slots of a dataclass.
    pub offsets: Option<Vec<isize>>,
    pub to_wire: Py<PyAny>,
    pub from_wire: Py<PyAny>,
    pub height: Py<PyAny>,
    pub build: Option<Py<PyAny>>,
}

#[derive(Default)]
struct Registry {
    by_type: HashMap<usize, &'static Plan>,
    by_tag: HashMap<u32, &'static Plan>,
}

struct Guarded(UnsafeCell<Option<Registry>>);
// SAFETY: only touched by functions that hold the GIL, and never across a call into Python.
unsafe impl Sync for Guarded {}
static REGISTRY: Guarded = Guarded(UnsafeCell::new(None));

fn registry(_py: Python<'_>) -> &'static mut Registry {
    // SAFETY: see Guarded.
    unsafe { (*REGISTRY.0.get()).get_or_insert_with(Registry::default) }
}

/// The plan of a type, if it has one.
#[inline]
pub fn of_type(py: Python<'_>, class: *mut ffi::PyTypeObject) -> Option<&'static Plan> {
    registry(py).by_type.get(&(class as usize)).copied()
}

/// The plan of a tag on the wire.
#[inline]
pub fn of_tag(py: Python<'_>, tag: u32) -> Option<&'static Plan> {
    registry(py).by_tag.get(&tag).copied()
}

/// Take over one `payloads/registry.py:Plan`. `direct`: its instances may be read and made field by field.
#[pyfunction]
pub fn register(plan: &Bound<'_, PyAny>, direct: bool) -> PyResult<()> {
    let py = plan.py();
    let class: Bound<'_, PyType> = plan.getattr("cls")?.cast_into()?;
    let tag: u32 = plan.getattr("tag")?.extract()?;
    if tag == TUPLE_TAG {
        return Ok(());
    }
    let labels = plan.getattr("labels")?;
    let mut fields = Vec::new();
    let mut kind = Kind::Collection;
    if !labels.is_none() {
        for name in labels.cast::<PyTuple>()?.iter() {
            fields.push(PyString::intern(py, name.extract::<&str>()?).unbind());
        }
        kind = if direct { Kind::Dataclass } else { Kind::Built };
    }
    let build = plan.getattr("build")?;
    let offsets = match kind {
        Kind::Dataclass => {
            fields.iter().map(|field| slots::offset(class.as_any(), field.bind(py).as_any())).collect()
        }
        _ => None,
    };
    let made: &'static Plan = Box::leak(Box::new(Plan {
        class: class.clone().unbind(),
        tag,
        kind,
        fields,
        offsets,
        to_wire: plan.getattr("to_wire")?.unbind(),
        from_wire: plan.getattr("from_wire")?.unbind(),
        height: plan.getattr("height")?.unbind(),
        build: if build.is_none() { None } else { Some(build.unbind()) },
    }));
    let registry = registry(py);
    if let Some(old) = registry.by_tag.insert(tag, made) {
        registry.by_type.remove(&(old.class.as_ptr() as usize));
    }
    registry.by_type.insert(class.as_ptr() as usize, made);
    Ok(())
}

/// No class has this tag any more: what has it is left to the reference.
#[pyfunction]
pub fn forget(py: Python<'_>, tag: u32) {
    let registry = registry(py);
    if let Some(old) = registry.by_tag.remove(&tag) {
        registry.by_type.remove(&(old.class.as_ptr() as usize));
    }
}
