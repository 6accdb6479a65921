//! Columns: what a vectorised function made of a batch, as rows. The mirror of `columns/payloads.py`'s way back to payloads.
//!
//! Python describes an Arrow array by its buffers, all without an offset and validated: ("int" | "float" | "bool", valid, data),
//! ("text" | "bytes", valid, ends, data), ("tuple", valid, ends, values), ("instance", valid, tag, fields). `valid` is None if nothing is null.

use crate::encoding;
use crate::plans::TUPLE_TAG;
use crate::row::Row;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::rc::Rc;

/// What became of one item.
pub enum Made {
    One(Row),
    Several(Vec<Row>),
    Raised(PyErr),
}

/// A buffer of Python's, held as long as it is read. None is an empty one.
struct Buffer(Option<ffi::Py_buffer>);

impl Buffer {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
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

    fn bytes(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: a simple view is contiguous; Arrow's buffers do not change.
            Some(view) if view.len > 0 => unsafe { std::slice::from_raw_parts(view.buf as *const u8, view.len as usize) },
            _ => &[],
        }
    }

    #[inline]
    fn eight(&self, place: usize) -> [u8; 8] {
        self.bytes()[place * 8..place * 8 + 8].try_into().expect("eight bytes")
    }

    #[inline]
    fn end(&self, place: usize) -> usize {
        i32::from_le_bytes(self.bytes()[place * 4..place * 4 + 4].try_into().expect("four bytes")) as usize
    }

    #[inline]
    fn bit(&self, place: usize) -> bool {
        self.bytes()[place / 8] >> (place % 8) & 1 == 1
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

enum Values {
    Int(Buffer),
    Float(Buffer),
    Bool(Buffer),
    Text(Buffer, Buffer),
    Bytes(Buffer, Buffer),
    Tuple(Buffer, Box<Column>),
    Instance(u32, Vec<Column>),
}

struct Column {
    valid: Option<Buffer>,
    values: Values,
}

impl Column {
    fn of(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        let described = described.cast::<PyTuple>().map_err(PyErr::from)?;
        let valid = described.get_item(1)?;
        let buffer = |place: usize| Buffer::of(&described.get_item(place)?);
        let values = match described.get_item(0)?.extract::<String>()?.as_str() {
            "int" => Values::Int(buffer(2)?),
            "float" => Values::Float(buffer(2)?),
            "bool" => Values::Bool(buffer(2)?),
            "text" => Values::Text(buffer(2)?, buffer(3)?),
            "bytes" => Values::Bytes(buffer(2)?, buffer(3)?),
            "tuple" => Values::Tuple(buffer(2)?, Box::new(Column::of(&described.get_item(3)?)?)),
            "instance" => {
                let fields = described.get_item(3)?.cast_into::<PyTuple>().map_err(PyErr::from)?;
                Values::Instance(described.get_item(2)?.extract()?, fields.iter().map(|field| Column::of(&field)).collect::<PyResult<_>>()?)
            }
            other => return Err(PyValueError::new_err(format!("a column of {other}"))),
        };
        Ok(Column { valid: if valid.is_none() { None } else { Some(Buffer::of(&valid)?) }, values })
    }

    fn put(&self, out: &mut Vec<u8>, place: usize) {
        if self.valid.as_ref().is_some_and(|valid| !valid.bit(place)) {
            out.push(0xc0);
            return;
        }
        match &self.values {
            Values::Int(data) => encoding::put_int(out, i64::from_le_bytes(data.eight(place))),
            Values::Float(data) => encoding::put_float(out, f64::from_le_bytes(data.eight(place))),
            Values::Bool(data) => out.push(if data.bit(place) { 0xc3 } else { 0xc2 }),
            Values::Text(ends, data) => encoding::put_str(out, &data.bytes()[ends.end(place)..ends.end(place + 1)]),
            Values::Bytes(ends, data) => encoding::put_bytes(out, &data.bytes()[ends.end(place)..ends.end(place + 1)]),
            Values::Tuple(ends, values) => {
                let (start, end) = (ends.end(place), ends.end(place + 1));
                encoding::put_array(out, end - start + 1);
                out.push(TUPLE_TAG as u8);
                (start..end).for_each(|at| values.put(out, at));
            }
            Values::Instance(tag, fields) => {
                encoding::put_array(out, fields.len() + 1);
                encoding::put_unsigned(out, *tag as u64);
                fields.iter().for_each(|field| field.put(out, place));
            }
        }
    }
}

/// (ends or None, column): one row an item, or those between one end and the next.
pub fn made(result: &Bound<'_, PyAny>, items: usize) -> PyResult<Vec<Made>> {
    let (ends, column): (Bound<'_, PyAny>, Bound<'_, PyAny>) = result.extract()?;
    let column = Column::of(&column)?;
    let ends = if ends.is_none() { None } else { Some(Buffer::of(&ends)?) };
    let bounds: Vec<usize> = (0..=items).map(|item| ends.as_ref().map_or(item, |ends| ends.end(item))).collect();
    let (first, last) = (bounds[0], bounds[items]);
    let mut starts = Vec::with_capacity(last - first + 1);
    let mut out = Vec::new();
    for place in first..last {
        starts.push(out.len());
        column.put(&mut out, place);
    }
    starts.push(out.len());
    let frame: Rc<[u8]> = out.into();
    let row = |place: usize| Row::of(&frame, starts[place - first]..starts[place - first + 1]);
    Ok(bounds.windows(2).map(|pair| if ends.is_some() { Made::Several((pair[0]..pair[1]).map(row).collect()) } else { Made::One(row(pair[0])) }).collect())
}
