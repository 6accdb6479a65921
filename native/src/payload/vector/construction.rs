//! Construction: a Vector of values that are all there.

use crate::payload::encoding::{self, Unsupported};
use crate::payload::plans::MAX_DEPTH;
use crate::payload::vector::layout::{in_tail, layout, WIDTH};
use crate::python::slots;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// A Vector of these values, as its constructor makes it; Unsupported if they do not fit.
pub fn of_values<'py>(
    py: Python<'py>,
    values: &[Bound<'py, PyAny>],
) -> Result<Bound<'py, PyAny>, Unsupported> {
    let layout = layout().ok_or(Unsupported)?;
    let mut counts: Vec<usize> = Vec::new();
    for value in values {
        let height = encoding::height(value, MAX_DEPTH - 1)? as usize;
        if height > counts.len() {
            counts.resize(height, 0);
        }
        if height > 0 {
            counts[height - 1] += 1;
        }
    }
    let in_trie = values.len() - in_tail(values.len());
    let (level, root) = built(py, &values[..in_trie])?;
    let failed = |_| Unsupported;
    let size = values.len().into_pyobject(py).map_err(|_| Unsupported)?;
    let level = level.into_pyobject(py).map_err(|_| Unsupported)?;
    let tail = PyList::new(py, &values[in_trie..]).map_err(failed)?;
    let counts = PyTuple::new(py, counts).map_err(failed)?;
    // SAFETY: a Vector has no `__new__` of its own, and its empty slots are filled with what its constructor
    // puts there.
    unsafe {
        let made = ffi::PyType_GenericAlloc(layout.class.as_ptr() as *mut ffi::PyTypeObject, 0);
        if made.is_null() {
            ffi::PyErr_Clear();
            return Err(Unsupported);
        }
        slots::fill(made, layout.size, size.into_ptr());
        slots::fill(made, layout.level, level.into_ptr());
        slots::fill(made, layout.root, root.into_ptr());
        slots::fill(made, layout.tail, tail.into_ptr());
        slots::fill(made, layout.counts, counts.into_ptr());
        Ok(Bound::from_owned_ptr(py, made))
    }
}

/// `trie.built` of full leaves.
fn built<'py>(
    py: Python<'py>,
    values: &[Bound<'py, PyAny>],
) -> Result<(usize, Bound<'py, PyTuple>), Unsupported> {
    let tuples = |objects: &[Bound<'py, PyAny>]| -> Result<Vec<Bound<'py, PyAny>>, Unsupported> {
        objects
            .chunks(WIDTH)
            .map(|part| PyTuple::new(py, part).map(Bound::into_any).map_err(|_| Unsupported))
            .collect()
    };
    let (mut nodes, mut level) = (tuples(values)?, 1);
    while nodes.len() > WIDTH {
        (nodes, level) = (tuples(&nodes)?, level + 1);
    }
    Ok((level, PyTuple::new(py, nodes).map_err(|_| Unsupported)?))
}
