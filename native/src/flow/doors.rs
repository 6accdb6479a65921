//! Rows of a batch: what stands at the doors of keyed vertices and sinks, column by column as Arrow has it,
//! so that no item of a batch becomes a Python object on its way out. The mirror of `spark/frames/rows.py`.

use crate::meta::Meta;
use crate::python::buffers::Buffer;
use crate::python::reference;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// It is time to take them.
const FULL_ROWS: usize = 8192;
const FULL_BYTES: usize = 16 << 20;

/// A column of bytes: Arrow's offsets and data.
struct Binary {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Default for Binary {
    fn default() -> Self {
        Binary { offsets: vec![0], data: Vec::new() }
    }
}

impl Binary {
    fn end(&mut self) -> PyResult<()> {
        let end = i32::try_from(self.data.len())
            .map_err(|_| PyValueError::new_err("the results of one record have more than 2 GiB"))?;
        self.offsets.push(end);
        Ok(())
    }

    fn taken<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        (little(py, &self.offsets), PyBytes::new(py, &self.data))
    }
}

fn little<'py>(py: Python<'py>, values: &[i32]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>())
}

/// (rows, to, slot, then offsets and data of key, meta and payload).
pub type Taken<'py> = (
    usize,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
);

#[derive(Default)]
pub struct Rows {
    to: Vec<i32>,
    slot: Vec<i32>,
    key: Binary,
    meta: Binary,
    payload: Binary,
    /// The first error item: its meta and encoding.
    pub least_error: Option<(Meta, Vec<u8>)>,
}

impl Rows {
    /// `error`: it is an error item, and may be the first.
    pub fn add(
        &mut self,
        to: usize,
        slot: u16,
        key: &[u8],
        meta: &Meta,
        payload: &Bound<'_, PyAny>,
        error: bool,
    ) -> PyResult<()> {
        let start = self.payload.data.len();
        reference::append(payload, &mut self.payload.data)?;
        self.added(to, slot, key, meta)?;
        if error && self.least_error.as_ref().is_none_or(|(least, _)| meta < least) {
            self.least_error = Some((meta.clone(), self.payload.data[start..].to_vec()));
        }
        Ok(())
    }

    pub fn add_encoded(
        &mut self,
        to: usize,
        slot: u16,
        key: &[u8],
        meta: &Meta,
        payload: &[u8],
    ) -> PyResult<()> {
        self.payload.data.extend_from_slice(payload);
        self.added(to, slot, key, meta)
    }

    /// Add what stands beside a payload.
    fn added(&mut self, to: usize, slot: u16, key: &[u8], meta: &Meta) -> PyResult<()> {
        self.payload.end()?;
        self.key.data.extend_from_slice(key);
        self.key.end()?;
        self.meta.data.extend_from_slice(meta);
        self.meta.end()?;
        self.to.push(to as i32);
        self.slot.push(slot as i32);
        Ok(())
    }

    pub fn full(&self) -> bool {
        self.to.len() >= FULL_ROWS || self.payload.data.len() >= FULL_BYTES
    }

    pub fn take<'py>(&mut self, py: Python<'py>) -> Taken<'py> {
        let least_error = self.least_error.take();
        let rows = std::mem::replace(self, Rows { least_error, ..Rows::default() });
        (
            rows.to.len(),
            little(py, &rows.to),
            little(py, &rows.slot),
            rows.key.taken(py),
            rows.meta.taken(py),
            rows.payload.taken(py),
        )
    }
}

/// A column of bytes that Arrow gave.
pub struct Given {
    offsets: Buffer,
    data: Buffer,
    /// Where an array begins in its buffers.
    first: usize,
}

impl Given {
    pub fn new(column: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (first, offsets, data): (usize, Bound<'_, PyAny>, Bound<'_, PyAny>) = column.extract()?;
        Ok(Given { offsets: Buffer::of(&offsets)?, data: Buffer::of(&data)?, first })
    }

    pub fn at(&self, row: usize) -> PyResult<&[u8]> {
        let bound = |place: usize| self.offsets.number(self.first + place).ok_or_else(outside);
        self.data.bytes().get(bound(row)? as usize..bound(row + 1)? as usize).ok_or_else(outside)
    }
}

/// A column of int32 that Arrow gave.
pub struct Numbers {
    values: Buffer,
    first: usize,
}

impl Numbers {
    pub fn new(column: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (first, values): (usize, Bound<'_, PyAny>) = column.extract()?;
        Ok(Numbers { values: Buffer::of(&values)?, first })
    }

    pub fn at(&self, row: usize) -> PyResult<i32> {
        self.values.number(self.first + row).ok_or_else(outside)
    }
}

fn outside() -> PyErr {
    PyValueError::new_err("a column is shorter than its batch")
}
