//! Promises of Vectors, on as much of the Python class as the kernel calls.

use super::*;
use crate::payload::vector::layout::layout;
use crate::python::objects::Object;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};
use std::ffi::CStr;

/// As much of `model/collections/vector.py` as the kernel calls.
const PYTHON: &CStr = c_str!(
    "
class Vector:
    __slots__ = ('_size', '_level', '_root', '_tail', '_counts')

def pushed(level, root, leaves, leaf):
    if leaves == 32 ** level:
        return level + 1, (root, path(level, leaf))
    return level, put(level, root, leaves, leaf)

def path(level, leaf):
    return leaf if level == 0 else (path(level - 1, leaf),)

def put(level, node, leaves, leaf):
    if level == 1:
        return (*node, leaf)
    place, inside = divmod(leaves, 32 ** (level - 1))
    if place == len(node):
        return (*node, path(level - 1, leaf))
    return (*node[:-1], put(level - 1, node[-1], inside, leaf))

def refused(vector, value):
    raise TypeError('no payload')
"
);

fn with_vectors(test: impl FnOnce(Python<'_>)) {
    Python::initialize();
    Python::attach(|py| {
        if layout().is_none() {
            let names = PyDict::new(py);
            py.run(PYTHON, Some(&names), None).unwrap();
            let get = |name: &str| names.get_item(name).unwrap().unwrap();
            let class = get("Vector").cast_into::<PyType>().unwrap();
            install_vector(&class, get("refused").unbind(), get("pushed").unbind(), get("refused").unbind())
                .unwrap();
        }
        test(py);
    });
}

fn numbers(py: Python<'_>, count: usize) -> Vec<Bound<'_, PyAny>> {
    (0..count).map(|number| number.into_pyobject(py).unwrap().into_any()).collect()
}

fn read(vector: &Bound<'_, PyAny>, start: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut take = |object: Object| {
        // SAFETY: the Vector that holds it is alive.
        found.push(unsafe { Bound::from_borrowed_ptr(vector.py(), object) }.extract().unwrap());
        Ok(())
    };
    // SAFETY: a Vector that is alive, and reading changes nothing.
    assert!(unsafe { values_from(vector.as_ptr(), start, &mut take) }.is_ok());
    found
}

/// Around the borders of a tail, of a leaf's and of a node's width.
const SIZES: [usize; 10] = [0, 1, 31, 32, 33, 64, 1024, 1056, 1057, 2100];

#[test]
fn a_vector_holds_what_it_was_made_of_from_any_place() {
    with_vectors(|py| {
        for size in SIZES {
            let made = of_values(py, &numbers(py, size)).ok().unwrap();
            for start in [0, 1, size / 2, size.saturating_sub(1)] {
                assert_eq!(read(&made, start), (start..size).collect::<Vec<_>>(), "{size} from {start}");
            }
        }
    });
}

#[test]
fn appending_leaves_the_older_versions_as_they_were() {
    with_vectors(|py| {
        let mut versions = vec![of_values(py, &[]).ok().unwrap()];
        for number in 0..1100 {
            let newest = versions.last().unwrap().call_method1("append", (number,)).unwrap();
            versions.push(newest);
        }
        for size in [0, 1, 31, 32, 33, 1024, 1056, 1057, 1100] {
            assert_eq!(read(&versions[size], 0), (0..size).collect::<Vec<_>>());
        }
        // SAFETY: Vectors that are alive.
        unsafe {
            assert!(grew(versions[40].as_ptr(), versions[1099].as_ptr()).ok().unwrap());
            assert!(!grew(versions[1099].as_ptr(), versions[40].as_ptr()).ok().unwrap());
        }
    });
}

#[test]
fn two_that_grow_from_one_do_not_see_each_other() {
    with_vectors(|py| {
        let base = of_values(py, &numbers(py, 5)).ok().unwrap();
        let one = base.call_method1("append", (100,)).unwrap();
        let other = base.call_method1("append", (200,)).unwrap();
        assert_eq!((read(&one, 5), read(&other, 5), read(&base, 5)), (vec![100], vec![200], vec![]));
    });
}

#[test]
fn what_is_no_payload_is_refused_by_the_reference() {
    with_vectors(|py| {
        let base = of_values(py, &numbers(py, 1)).ok().unwrap();
        assert!(base
            .call_method1("append", (PyList::empty(py),))
            .unwrap_err()
            .is_instance_of::<PyTypeError>(py));
    });
}
