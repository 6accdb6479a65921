//! Tuples, lists, floats and strings of Python's, read in place where the kernel is built for one version of
//! Python.
//!
//! Built for all of them (the feature `abi3`, as in our wheels), the same by Python's stable functions. Each
//! caller has checked the type.

use pyo3::ffi;

pub type Object = *mut ffi::PyObject;

#[cfg(not(feature = "abi3"))]
mod chosen {
    pub use pyo3::ffi::{
        PyFloat_AS_DOUBLE as float, PyList_GET_ITEM as list_item, PyList_GET_SIZE as list_size,
        PyTuple_GET_ITEM as tuple_item, PyTuple_GET_SIZE as tuple_size, PyTuple_SET_ITEM as fill_tuple,
    };

    /// The UTF-8 that a str has without making it; None unless it is ASCII.
    /// SAFETY: `object` is a str that is alive, and the GIL is held for as long as the bytes are read.
    #[inline]
    pub unsafe fn utf8_at_hand<'a>(object: super::Object) -> Option<&'a [u8]> {
        if pyo3::ffi::PyUnicode_IS_COMPACT_ASCII(object) == 0 {
            return None;
        }
        let length = pyo3::ffi::PyUnicode_GET_LENGTH(object) as usize;
        Some(std::slice::from_raw_parts(pyo3::ffi::PyUnicode_DATA(object) as *const u8, length))
    }
}

#[cfg(feature = "abi3")]
mod chosen {
    pub use pyo3::ffi::{
        PyFloat_AsDouble as float, PyList_GetItem as list_item, PyList_Size as list_size,
        PyTuple_GetItem as tuple_item, PyTuple_SetItem as fill_tuple, PyTuple_Size as tuple_size,
    };

    /// The UTF-8 of a str. One that is not ASCII keeps it from then on: nothing in the stable functions tells
    /// the two apart before. None if it has none (a lone surrogate). SAFETY: `object` is a str that is alive,
    /// and the GIL is held for as long as the bytes are read.
    #[inline]
    pub unsafe fn utf8_at_hand<'a>(object: super::Object) -> Option<&'a [u8]> {
        let mut size = 0;
        let data = pyo3::ffi::PyUnicode_AsUTF8AndSize(object, &mut size);
        if data.is_null() {
            pyo3::ffi::PyErr_Clear();
            return None;
        }
        Some(std::slice::from_raw_parts(data as *const u8, size as usize))
    }
}

pub use chosen::*;

/// The UTF-8 of a str, given to `take`; None if it has none (a lone surrogate).
/// SAFETY: `object` is a str that is alive, and the GIL is held.
#[inline]
pub unsafe fn with_utf8<R>(object: Object, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
    if let Some(text) = utf8_at_hand(object) {
        return Some(take(text));
    }
    let encoded = ffi::PyUnicode_AsUTF8String(object);
    if encoded.is_null() {
        ffi::PyErr_Clear();
        return None;
    }
    let text = std::slice::from_raw_parts(
        ffi::PyBytes_AsString(encoded) as *const u8,
        ffi::PyBytes_Size(encoded) as usize,
    );
    let result = take(text);
    ffi::Py_DECREF(encoded);
    Some(result)
}
