//! Values: payloads and wires as Python's objects.

use crate::payload::decoding::instances::{built, instance};
use crate::payload::decoding::{Reader, Value};
use crate::payload::encoding::Unsupported;
use crate::payload::plans::{self, Kind, Plan, MAX_DEPTH, TUPLE_TAG};
use crate::payload::vector;
use crate::python::moments::{self, DATETIME_TAG};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyList, PyString, PyTuple};
use pyo3::IntoPyObjectExt;

impl Reader<'_> {
    /// A payload.
    pub fn value<'py>(&mut self, py: Python<'py>, room: i32) -> Value<'py> {
        let first = self.byte()?;
        match first {
            0x90..=0x9f | 0xdc | 0xdd => {
                let size = self.array_behind(first)?;
                self.tagged(py, size, room)
            }
            _ => self.scalar(py, first),
        }
    }

    fn text<'py>(&mut self, py: Python<'py>, size: u64) -> Value<'py> {
        let data = self.take(size as usize)?;
        if data.is_ascii() {
            // SAFETY: ASCII is UTF-8.
            return Ok(PyString::new(py, unsafe { std::str::from_utf8_unchecked(data) }).into_any());
        }
        Ok(PyString::new(py, std::str::from_utf8(data).map_err(|_| Unsupported)?).into_any())
    }

    fn scalar<'py>(&mut self, py: Python<'py>, first: u8) -> Value<'py> {
        match first {
            0x00..=0x7f => int(py, first as i64),
            0xe0..=0xff => int(py, first as i8 as i64),
            0xa0..=0xbf => self.text(py, (first & 0x1f) as u64),
            0xd9..=0xdb => {
                let size = self.unsigned(1 << (first - 0xd9))?;
                self.text(py, size)
            }
            0xcc..=0xcf => self.unsigned(1 << (first - 0xcc))?.into_bound_py_any(py).map_err(|_| Unsupported),
            0xd0 => {
                let value = self.unsigned(1)? as i8;
                int(py, value as i64)
            }
            0xd1 => {
                let value = self.unsigned(2)? as i16;
                int(py, value as i64)
            }
            0xd2 => {
                let value = self.unsigned(4)? as i32;
                int(py, value as i64)
            }
            0xd3 => {
                let value = self.unsigned(8)? as i64;
                int(py, value)
            }
            0xcb => Ok(PyFloat::new(py, f64::from_bits(self.unsigned(8)?)).into_any()),
            0xca => Ok(PyFloat::new(py, f32::from_bits(self.unsigned(4)? as u32) as f64).into_any()),
            0xc0 => Ok(py.None().into_bound(py)),
            0xc2 => false.into_bound_py_any(py).map_err(|_| Unsupported),
            0xc3 => true.into_bound_py_any(py).map_err(|_| Unsupported),
            0xc4..=0xc6 => {
                // `bytes` reads the header again
                self.at -= 1;
                Ok(PyBytes::new(py, self.bytes()?).into_any())
            }
            _ => Err(Unsupported),
        }
    }

    /// The value behind the header of an array of `size`: a tag and members.
    fn tagged<'py>(&mut self, py: Python<'py>, size: usize, room: i32) -> Value<'py> {
        if size == 0 || room <= 0 {
            return Err(Unsupported);
        }
        let tag = self.number()?;
        if tag == TUPLE_TAG as u64 {
            let members = self.members(py, size - 1, room)?;
            return PyTuple::new(py, members).map(Bound::into_any).map_err(|_| Unsupported);
        }
        let plan = plans::of_tag(py, u32::try_from(tag).map_err(|_| Unsupported)?).ok_or(Unsupported)?;
        if matches!(plan.kind, Kind::Collection) {
            return self.collection(py, plan, size, room);
        }
        if size - 1 != plan.fields.len() {
            return Err(Unsupported);
        }
        match plan.kind {
            Kind::Dataclass => instance(py, plan, || self.value(py, room - 1)),
            _ => built(py, plan, &self.members(py, size - 1, room)?),
        }
    }

    fn members<'py>(
        &mut self,
        py: Python<'py>,
        count: usize,
        room: i32,
    ) -> Result<smallvec::SmallVec<[Bound<'py, PyAny>; 8]>, Unsupported> {
        let mut members = smallvec::SmallVec::new();
        for _ in 0..count {
            members.push(self.value(py, room - 1)?);
        }
        Ok(members)
    }

    /// A collection: a Vector, or its Python plan reads the wire, tag included.
    fn collection<'py>(
        &mut self,
        py: Python<'py>,
        plan: &'static Plan,
        size: usize,
        room: i32,
    ) -> Value<'py> {
        if vector::is_class(&plan.class) {
            return vector::of_values(py, &self.members(py, size - 1, room)?);
        }
        if plan.tag == DATETIME_TAG && size == 3 {
            let start = self.at;
            if let Some(made) = self.moment(py) {
                return Ok(made);
            }
            self.at = start;
        }
        let wire = PyList::empty(py);
        wire.append(plan.tag).map_err(|_| Unsupported)?;
        for _ in 1..size {
            wire.append(self.wire(py, 4 * MAX_DEPTH)?).map_err(|_| Unsupported)?;
        }
        plan.from_wire.bind(py).call1((wire, room)).map_err(|_| Unsupported)
    }

    /// A datetime in UTC behind its tag: microseconds, then 0 for its zone.
    fn moment<'py>(&mut self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let microseconds = self.integer().ok()?;
        if self.byte().ok()? == 0 {
            moments::datetime(py, microseconds)
        } else {
            None
        }
    }

    fn wire<'py>(&mut self, py: Python<'py>, room: i32) -> Value<'py> {
        let first = self.byte()?;
        if !matches!(first, 0x90..=0x9f | 0xdc | 0xdd) {
            return self.scalar(py, first);
        }
        if room <= 0 {
            return Err(Unsupported);
        }
        let wire = PyList::empty(py);
        for _ in 0..self.array_behind(first)? {
            wire.append(self.wire(py, room - 1)?).map_err(|_| Unsupported)?;
        }
        Ok(wire.into_any())
    }
}

fn int<'py>(py: Python<'py>, value: i64) -> Value<'py> {
    value.into_bound_py_any(py).map_err(|_| Unsupported)
}
