//! Reduce: the mirror of `core/dataflow/reduce.py`.

mod fold;

pub use fold::Fold;

use crate::meta::{Floor, Meta};
use crate::python::reference::{unmatched, Tools};
use crate::state::accumulators::{encoded, Accumulator, Accumulators, Changes, Entry, TRIM_ABOVE};
use crate::state::buckets::Content;
use pyo3::prelude::*;

pub struct Reduce {
    pub kept: Accumulators<Item>,
    pub fold: Fold,
}

/// An item that was folded.
pub struct Item {
    payload: Py<PyAny>,
    result: Option<Py<PyAny>>,
}

impl Reduce {
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
        let at = self.kept.table.touched(key, slot);
        let entries = &mut self.kept.table.at(at).content;
        let mut before = None;
        if let Some(last) = entries.0.last() {
            if *meta < last.meta {
                let place = entries.0.partition_point(|entry| entry.meta <= *meta);
                entries.0.insert(
                    place,
                    Entry {
                        meta: meta.clone(),
                        item: Some(Item { payload: payload.clone().unbind(), result: None }),
                        accumulator: Accumulator::Absent,
                    },
                );
                return Ok(Err(self.again(tools, py, at, place, 1)?));
            }
            if entries.0.len() > TRIM_ABOVE {
                entries.trim(cuts);
            }
            let newest = entries.0.len() - 1;
            before = self.kept.accumulator(py, at, newest)?;
        }
        let (after, result) = self.fold.step(tools, before, payload)?;
        self.kept.table.at(at).content.0.push(Entry {
            meta: meta.clone(),
            item: Some(Item { payload: payload.clone().unbind(), result: Some(result.clone().unbind()) }),
            accumulator: Accumulator::Value(after.unbind()),
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
        let at = self.kept.table.touched(key, slot);
        let victim = encoded(payload)?;
        let entries = &mut self.kept.table.at(at).content.0;
        let start = entries.partition_point(|entry| entry.meta < *meta);
        let end = entries.partition_point(|entry| entry.meta <= *meta);
        for place in start..end {
            let same = match &entries[place].item {
                Some(other) => encoded(other.payload.bind(py))? == victim,
                None => false,
            };
            if same {
                let gone = entries.remove(place);
                let result = gone.item.and_then(|item| item.result);
                let result = result.expect("an item above minimal time has a result").into_bound(py);
                let mut changes = vec![(gone.meta, result, true)];
                changes.append(&mut self.again(tools, py, at, place, 0)?);
                return Ok(changes);
            }
        }
        Err(unmatched(py, &format!("operation {}", self.kept.operation), meta))
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
        let mut before = if start > 0 { self.kept.accumulator(py, at, start - 1)? } else { None };
        for place in start..self.kept.table.at(at).content.0.len() {
            let whole = "what is combined again has its payload";
            let item = self.kept.table.at(at).content.0[place].item.as_ref().expect(whole);
            let payload = item.payload.bind(py).clone();
            let given = if place == 0 { None } else { before };
            let (after, result) = self.fold.step(tools, given, &payload)?;
            let entry = &mut self.kept.table.at(at).content.0[place];
            before = Some(after.clone());
            entry.accumulator = Accumulator::Value(after.unbind());
            let old = entry.item.as_mut().expect(whole).result.replace(result.clone().unbind());
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
