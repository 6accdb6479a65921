//! Rows: payloads that stay in their canonical encoding from where they are made to where they leave.
//!
//! A row is a range of a frame that many rows share: what a vectorised function made, or what a peer sent.
//! Its fields are found by skipping over values; none is decoded.

use crate::payload::decoding::Reader;
use crate::payload::encoding::Unsupported;
use crate::payload::plans::{self, Kind, Plan, MAX_DEPTH};
use crate::python::reference;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;

/// Levels of arrays in a well-formed wire: collections have several for one level of the payload.
const WIRE_DEPTH: i32 = 4 * MAX_DEPTH;
/// Levels of a field that is worked on without being decoded. Nothing that is kept gets near a payload's own
/// limit by it.
const FIELD_DEPTH: i32 = 16;

#[derive(Clone)]
pub struct Row {
    frame: Rc<[u8]>,
    start: u32,
    end: u32,
}

impl Row {
    pub fn of(frame: &Rc<[u8]>, range: Range<usize>) -> Self {
        Row { frame: frame.clone(), start: range.start as u32, end: range.end as u32 }
    }

    pub fn copied(bytes: &[u8]) -> Self {
        Row { frame: bytes.into(), start: 0, end: bytes.len() as u32 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.frame[self.start as usize..self.end as usize]
    }

    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object_of(py, self.bytes())
    }
}

/// The payload of an encoding.
pub fn object_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = Reader::new(bytes);
    match reader.value(py, MAX_DEPTH) {
        Ok(value) if reader.at_end() => Ok(value),
        _ => reference::decode(py, bytes),
    }
}

/// The rows of `encode_many`.
pub fn rows_of(data: &Bound<'_, PyBytes>) -> Result<Vec<Row>, Unsupported> {
    let frame: Rc<[u8]> = data.as_bytes().into();
    let mut reader = Reader::new(&frame);
    let count = reader.array()?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let start = reader.at();
        reader.skip(WIRE_DEPTH)?;
        rows.push(Row::of(&frame, start..reader.at()));
    }
    if reader.at_end() {
        Ok(rows)
    } else {
        Err(Unsupported)
    }
}

/// Where the fields of an instance stand: field `i` from bound `i` to the next.
pub type Bounds = SmallVec<[u32; 12]>;

/// The class of an instance, and where its first `count` fields stand. None if it is no instance of a class
/// with fields.
pub fn fields(
    py: Python<'_>,
    row: &[u8],
    wanted: impl FnOnce(&'static Plan) -> usize,
) -> Option<(&'static Plan, Bounds)> {
    let mut reader = Reader::new(row);
    let size = reader.array().ok()?;
    let tag = u32::try_from(reader.number().ok()?).ok()?;
    let plan = plans::of_tag(py, tag)?;
    if matches!(plan.kind, Kind::Collection) || size != plan.fields.len() + 1 {
        return None;
    }
    let mut bounds = Bounds::new();
    bounds.push(reader.at() as u32);
    for _ in 0..wanted(plan).min(plan.fields.len()) {
        reader.skip(FIELD_DEPTH).ok()?;
        bounds.push(reader.at() as u32);
    }
    Some((plan, bounds))
}
