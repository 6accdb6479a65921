//! Reduce: the mirror of `core/dataflow/reduce.py`.

mod entries;
mod fold;
mod rows;

pub use fold::Fold;
pub use rows::{delta, python_delta};

use crate::meta::{Floor, Meta};
use crate::payload::encoding;
use crate::payload::vector;
use crate::python::reference::{refused, unmatched, Tools};
use crate::state::buckets::Content;
use crate::state::keyed::Table;
use crate::state::reduce::entries::{Accumulator, Entries, Entry};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub const TRIM_ABOVE: usize = 32;
/// Appended values up to which a delta is always worth it (`state.LEAST_LIMIT`).
pub const LEAST_LIMIT: usize = 64;

pub struct Reduce {
    pub operation: usize,
    pub table: Table<Entries>,
    pub fold: Fold,
    /// `reduce._decoded`: tuple of stored bytes -> accumulator.
    pub decoded: Py<PyAny>,
    /// `states.delta_state` and `states.encode_state`.
    pub delta_state: Py<PyAny>,
}

/// (meta, result, is it a tombstone).
pub type Changes<'py> = Vec<(Meta, Bound<'py, PyAny>, bool)>;

pub fn encoded(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    encoding::put(value.py(), &mut out, value).or_else(|_| refused(value, &mut out))?;
    Ok(out)
}

impl Reduce {
    pub fn accumulator<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        place: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = &mut self.table.at(at).content.0[place];
        match &entry.accumulator {
            Accumulator::Absent => Ok(None),
            Accumulator::Value(value) => Ok(Some(value.bind(py).clone())),
            Accumulator::Stored(stored) => {
                let value = match stored.bind(py).cast::<PyTuple>().ok().and_then(vector::restored) {
                    Some(value) => value,
                    None => self.decoded.bind(py).call1((stored,))?,
                };
                entry.accumulator = Accumulator::Value(value.clone().unbind());
                Ok(Some(value))
            }
        }
    }

    /// An item in order gives its result; a late one, all results to invalidate and those that hold now.
    pub fn insert<'py>(
        &mut self,
        tools: &Tools,
        cuts: &[Floor],
        key: &[u8],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Result<Bound<'py, PyAny>, Changes<'py>>> {
        let py = payload.py();
        let at = self.table.touched(key, slot);
        let entries = &mut self.table.at(at).content;
        let mut before = None;
        if let Some(last) = entries.0.last() {
            if *meta < last.meta {
                let place = entries.0.partition_point(|entry| entry.meta <= *meta);
                entries.0.insert(
                    place,
                    Entry {
                        meta: meta.clone(),
                        payload: Some(payload.clone().unbind()),
                        accumulator: Accumulator::Absent,
                        result: None,
                    },
                );
                return Ok(Err(self.again(tools, py, at, place, 1)?));
            }
            if entries.0.len() > TRIM_ABOVE {
                entries.trim(cuts);
            }
            let newest = entries.0.len() - 1;
            before = self.accumulator(py, at, newest)?;
        }
        let (after, result) = self.fold.step(tools, before, payload)?;
        self.table.at(at).content.0.push(Entry {
            meta: meta.clone(),
            payload: Some(payload.clone().unbind()),
            accumulator: Accumulator::Value(after.unbind()),
            result: Some(result.clone().unbind()),
        });
        Ok(Ok(result))
    }

    /// A tombstone for an item that was inserted before.
    pub fn remove<'py>(
        &mut self,
        tools: &Tools,
        key: &[u8],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Changes<'py>> {
        let py = payload.py();
        let at = self.table.touched(key, slot);
        let victim = encoded(payload)?;
        let entries = &mut self.table.at(at).content.0;
        let start = entries.partition_point(|entry| entry.meta < *meta);
        let end = entries.partition_point(|entry| entry.meta <= *meta);
        for place in start..end {
            let same = match &entries[place].payload {
                Some(other) => encoded(other.bind(py))? == victim,
                None => false,
            };
            if same {
                let gone = entries.remove(place);
                let result = gone.result.expect("an item above minimal time has a result").into_bound(py);
                let mut changes = vec![(gone.meta, result, true)];
                changes.append(&mut self.again(tools, py, at, place, 0)?);
                return Ok(changes);
            }
        }
        Err(unmatched(py, &format!("operation {}", self.operation), meta))
    }

    /// Combine from `start` on; the first `new` of them had no result before.
    fn again<'py>(
        &mut self,
        tools: &Tools,
        py: Python<'py>,
        at: u32,
        start: usize,
        new: usize,
    ) -> PyResult<Changes<'py>> {
        let mut tombstones = Vec::new();
        let mut changes = Vec::new();
        let mut before = if start > 0 { self.accumulator(py, at, start - 1)? } else { None };
        for place in start..self.table.at(at).content.0.len() {
            let payload = self.table.at(at).content.0[place]
                .payload
                .as_ref()
                .expect("what is combined again has its payload")
                .bind(py)
                .clone();
            let given = if place == 0 { None } else { before };
            let (after, result) = self.fold.step(tools, given, &payload)?;
            let entry = &mut self.table.at(at).content.0[place];
            before = Some(after.clone());
            entry.accumulator = Accumulator::Value(after.unbind());
            let old = entry.result.replace(result.clone().unbind());
            let meta = entry.meta.clone();
            if place >= start + new {
                let old = old.expect("only new items lack a result").into_bound(py);
                if encoded(&old)? == encoded(&result)? {
                    continue;
                }
                tombstones.push((meta.clone(), old, true));
            }
            changes.push((meta, result, false));
        }
        tombstones.append(&mut changes);
        Ok(tombstones)
    }
}
