//! Decoding payloads: the mirror of `model/payloads/encoding.py`. Whatever is not a payload gives `Unsupported`;
//! the Python reference explains.

use crate::payload::encoding::Unsupported;
use crate::payload::plans::{self, Kind, Plan, MAX_DEPTH, TUPLE_TAG};
use crate::payload::vector;
use crate::python::moments::{self, DATETIME_TAG};
use crate::python::slots;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyList, PyString, PyTuple};
use pyo3::IntoPyObjectExt;

type Value<'py> = Result<Bound<'py, PyAny>, Unsupported>;

pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Reader { data, at: 0 }
    }

    pub fn at_end(&self) -> bool {
        self.at == self.data.len()
    }

    pub fn at(&self) -> usize {
        self.at
    }

    /// Pass over a value: well-formed, and of at most `room` levels of containers.
    pub fn skip(&mut self, room: i32) -> Result<(), Unsupported> {
        let first = self.byte()?;
        let size = match first {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
            0xa0..=0xbf => (first & 0x1f) as usize,
            0xd9..=0xdb => self.unsigned(1 << (first - 0xd9))? as usize,
            0xc4..=0xc6 => self.unsigned(1 << (first - 0xc4))? as usize,
            0xcc..=0xcf => 1 << (first - 0xcc),
            0xd0..=0xd3 => 1 << (first - 0xd0),
            0xca => 4,
            0xcb => 8,
            _ => return self.skip_array(first, room),
        };
        self.take(size).map(|_| ())
    }

    fn skip_array(&mut self, first: u8, room: i32) -> Result<(), Unsupported> {
        if room <= 0 {
            return Err(Unsupported);
        }
        for _ in 0..self.array_behind(first)? {
            self.skip(room - 1)?;
        }
        Ok(())
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], Unsupported> {
        let end = self.at.checked_add(size).filter(|end| *end <= self.data.len()).ok_or(Unsupported)?;
        let taken = &self.data[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Unsupported> {
        Ok(self.take(1)?[0])
    }

    fn unsigned(&mut self, bytes: usize) -> Result<u64, Unsupported> {
        Ok(self.take(bytes)?.iter().fold(0, |value, byte| value << 8 | *byte as u64))
    }

    /// The size in an array's header.
    pub fn array(&mut self) -> Result<usize, Unsupported> {
        let first = self.byte()?;
        self.array_behind(first)
    }

    fn array_behind(&mut self, first: u8) -> Result<usize, Unsupported> {
        let size = match first {
            0x90..=0x9f => (first & 0x0f) as usize,
            0xdc => self.unsigned(2)? as usize,
            0xdd => self.unsigned(4)? as usize,
            _ => return Err(Unsupported),
        };
        // Every element has a byte at least: memory stays proportional to what came.
        if size > self.data.len() - self.at {
            Err(Unsupported)
        } else {
            Ok(size)
        }
    }

    /// A whole number that is not negative.
    pub fn number(&mut self) -> Result<u64, Unsupported> {
        match self.byte()? {
            small @ 0x00..=0x7f => Ok(small as u64),
            first @ 0xcc..=0xcf => self.unsigned(1 << (first - 0xcc)),
            _ => Err(Unsupported),
        }
    }

    /// The bytes of a bin.
    pub fn bytes(&mut self) -> Result<&'a [u8], Unsupported> {
        let size = match self.byte()? {
            0xc4 => self.unsigned(1)?,
            0xc5 => self.unsigned(2)?,
            0xc6 => self.unsigned(4)?,
            _ => return Err(Unsupported),
        };
        self.take(size as usize)
    }

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
                self.at -= 1;
                Ok(PyBytes::new(py, self.bytes()?).into_any())
            }
            _ => Err(Unsupported),
        }
    }

    /// What stands behind the header of an array of `size`: a tag and members.
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

    /// A whole number of 64 bits.
    pub fn integer(&mut self) -> Result<i64, Unsupported> {
        match self.byte()? {
            small @ 0x00..=0x7f => Ok(small as i64),
            small @ 0xe0..=0xff => Ok(small as i8 as i64),
            first @ 0xcc..=0xcf => {
                i64::try_from(self.unsigned(1 << (first - 0xcc))?).map_err(|_| Unsupported)
            }
            0xd0 => Ok(self.unsigned(1)? as i8 as i64),
            0xd1 => Ok(self.unsigned(2)? as i16 as i64),
            0xd2 => Ok(self.unsigned(4)? as i32 as i64),
            0xd3 => Ok(self.unsigned(8)? as i64),
            _ => Err(Unsupported),
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

fn built<'py>(py: Python<'py>, plan: &'static Plan, members: &[Bound<'py, PyAny>]) -> Value<'py> {
    let members = PyList::new(py, members).map_err(|_| Unsupported)?;
    plan.build.as_ref().ok_or(Unsupported)?.bind(py).call1((members,)).map_err(|_| Unsupported)
}

/// An instance of a dataclass; `next` gives the values of its fields in their order.
fn instance<'py>(py: Python<'py>, plan: &'static Plan, mut next: impl FnMut() -> Value<'py>) -> Value<'py> {
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

fn int<'py>(py: Python<'py>, value: i64) -> Value<'py> {
    value.into_bound_py_any(py).map_err(|_| Unsupported)
}
