//! Buffers of Arrow's arrays, as Python hands them over.

use pyo3::ffi;
use pyo3::prelude::*;

/// A buffer of Python's, held as long as it is read. None is an empty one.
pub struct Buffer(Option<ffi::Py_buffer>);

impl Buffer {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Buffer(None));
        }
        let mut view = std::mem::MaybeUninit::<ffi::Py_buffer>::uninit();
        // SAFETY: the GIL is held; the view is initialised if the call succeeds, and released once, by Drop.
        unsafe {
            if ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_SIMPLE) != 0 {
                return Err(PyErr::fetch(object.py()));
            }
            Ok(Buffer(Some(view.assume_init())))
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: a simple view is contiguous; Arrow's buffers do not change.
            Some(view) if view.len > 0 => unsafe {
                std::slice::from_raw_parts(view.buf as *const u8, view.len as usize)
            },
            _ => &[],
        }
    }

    /// The int32 at a place; None behind the end.
    #[inline]
    pub fn number(&self, place: usize) -> Option<i32> {
        let bytes = self.bytes().get(place * 4..place * 4 + 4)?;
        Some(i32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(view) = &mut self.0 {
            // SAFETY: every Buffer lives in a call that holds the GIL.
            unsafe { ffi::PyBuffer_Release(view) }
        }
    }
}
