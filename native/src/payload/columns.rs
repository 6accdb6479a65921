//! Columns: what a vectorised function made of a batch, as rows. The mirror of `columns/shape.py`'s way back
//! to payloads.
//!
//! Python describes an Arrow array by its buffers, all without an offset and validated: ("int" | "float" |
//! "bool", valid, data), ("text" | "bytes", valid, ends, data), ("tuple", valid, ends, values), ("instance",
//! valid, tag, fields). `valid` is None if nothing is null.

use crate::payload::encoding;
use crate::payload::plans::TUPLE_TAG;
use crate::payload::row::Row;
use crate::python::buffers::Buffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::rc::Rc;

#[inline]
fn eight(data: &Buffer, place: usize) -> [u8; 8] {
    data.bytes()[place * 8..place * 8 + 8].try_into().expect("eight bytes")
}

#[inline]
fn end(ends: &Buffer, place: usize) -> usize {
    ends.number(place).expect("a validated array has an end for each entry") as usize
}

#[inline]
fn bit(data: &Buffer, place: usize) -> bool {
    data.bytes()[place / 8] >> (place % 8) & 1 == 1
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
                Values::Instance(
                    described.get_item(2)?.extract()?,
                    fields.iter().map(|field| Column::of(&field)).collect::<PyResult<_>>()?,
                )
            }
            other => return Err(PyValueError::new_err(format!("a column of {other}"))),
        };
        Ok(Column { valid: if valid.is_none() { None } else { Some(Buffer::of(&valid)?) }, values })
    }

    fn put(&self, out: &mut Vec<u8>, place: usize) {
        if self.valid.as_ref().is_some_and(|valid| !bit(valid, place)) {
            out.push(0xc0);
            return;
        }
        match &self.values {
            Values::Int(data) => encoding::put_int(out, i64::from_le_bytes(eight(data, place))),
            Values::Float(data) => encoding::put_float(out, f64::from_le_bytes(eight(data, place))),
            Values::Bool(data) => out.push(if bit(data, place) { 0xc3 } else { 0xc2 }),
            Values::Text(ends, data) => {
                encoding::put_str(out, &data.bytes()[end(ends, place)..end(ends, place + 1)])
            }
            Values::Bytes(ends, data) => {
                encoding::put_bytes(out, &data.bytes()[end(ends, place)..end(ends, place + 1)])
            }
            Values::Tuple(ends, values) => {
                let (first, last) = (end(ends, place), end(ends, place + 1));
                encoding::put_array(out, last - first + 1);
                out.push(TUPLE_TAG as u8);
                (first..last).for_each(|at| values.put(out, at));
            }
            Values::Instance(tag, fields) => {
                encoding::put_array(out, fields.len() + 1);
                encoding::put_unsigned(out, *tag as u64);
                fields.iter().for_each(|field| field.put(out, place));
            }
        }
    }
}

/// The entries of a column, each a row.
pub fn rows(described: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<Row>> {
    let column = Column::of(described)?;
    let mut ends = Vec::with_capacity(count + 1);
    let mut out = Vec::new();
    ends.push(0);
    for place in 0..count {
        column.put(&mut out, place);
        ends.push(out.len());
    }
    let frame: Rc<[u8]> = out.into();
    Ok(ends.windows(2).map(|pair| Row::of(&frame, pair[0]..pair[1])).collect())
}

/// Where the results of each of `items` end, from 0 on.
pub fn ends(described: &Bound<'_, PyAny>, items: usize) -> PyResult<Vec<usize>> {
    let ends = Buffer::of(described)?;
    let first = end(&ends, 0);
    Ok((0..=items).map(|item| end(&ends, item) - first).collect())
}
