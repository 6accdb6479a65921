//! Folded: a reduce of ready-made functions, over rows. The same results, rows of snapshots and errors as
//! `reduce/`, which mirrors `core/dataflow/reduce.py`; only that payloads stay encoded, and that a list's
//! values stand one behind the other in their bucket.
//!
//!     values      | a | b | c |        of all accumulators of a bucket
//!     after x1    |---|                count 1, its end behind a
//!     after x2    |-------|            count 2, its end behind b
//!
//! An accumulator of a list is how much of that is its own. So all accumulators of a bucket share one piece
//! of memory, in order, and going back cuts it. What a ready-made function cannot do natively Python does,
//! for that item; its accumulator is then an object.

mod accumulators;
mod rows;
mod steps;

use crate::meta::{Floor, Meta};
use crate::payload::row::Row;
use crate::python::reference::{unmatched, Tools};
use crate::state::accumulators::TRIM_ABOVE;
use crate::state::buckets::Content;
use crate::state::folded::steps::{Accumulator, Step, Steps};
use crate::state::keyed::Table;
use crate::state::ready::{Combine, Emit};
use crate::state::reduce::Fold;
use pyo3::prelude::*;

pub use steps::Outcome;

pub struct Folded {
    pub operation: usize,
    pub table: Table<Steps>,
    pub combine: Combine,
    pub emit: Emit,
    /// The same functions in Python.
    pub fold: Fold,
    /// `reduce.decoded`, and the type of `errors.ErrorValue`.
    pub decoded: Py<PyAny>,
    pub delta_state: Py<PyAny>,
    pub error_type: Py<PyAny>,
}

/// (meta, result, is it a tombstone).
pub type Changes = Vec<(Meta, Outcome, bool)>;

impl Folded {
    /// An item in order writes its result to `out`, or gives what Python made of it; a late one, all that
    /// changed.
    pub fn insert(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        cuts: &[Floor],
        key: &[u8],
        slot: u16,
        meta: &Meta,
        row: Row,
        out: &mut Vec<u8>,
    ) -> PyResult<Option<Changes>> {
        let at = self.table.touched(key, slot);
        let content = &mut self.table.at(at).content;
        let mut newest = content.steps.len();
        if let Some(last) = content.steps.last() {
            if *meta < last.meta {
                let place = content.steps.partition_point(|step| step.meta <= *meta);
                content.steps.insert(
                    place,
                    Step { meta: meta.clone(), row: Some(row), accumulator: Accumulator::Absent, made: None },
                );
                return Ok(Some(self.again(py, tools, at, place, 1)?));
            }
            if newest > TRIM_ABOVE {
                content.trim(cuts);
                newest = content.steps.len();
            }
        }
        let (accumulator, made) = self.stepped(py, tools, at, newest, &row, out)?;
        let given = made.clone();
        self.table.at(at).content.steps.push(Step { meta: meta.clone(), row: Some(row), accumulator, made });
        Ok(given.map(|outcome| vec![(meta.clone(), outcome, false)]))
    }

    /// A tombstone for an item that was inserted before.
    pub fn remove(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        key: &[u8],
        slot: u16,
        meta: &Meta,
        victim: &[u8],
    ) -> PyResult<Changes> {
        let at = self.table.touched(key, slot);
        let steps = &self.table.at(at).content.steps;
        let start = steps.partition_point(|step| step.meta < *meta);
        let end = steps.partition_point(|step| step.meta <= *meta);
        let same = |step: &Step| step.row.as_ref().is_some_and(|row| row.bytes() == victim);
        let Some(place) = (start..end).find(|place| same(&steps[*place])) else {
            return Err(unmatched(py, &format!("operation {}", self.operation), meta));
        };
        let mut changes = vec![(meta.clone(), self.outcome(py, at, place)?, true)];
        let behind = self.outcomes(py, at, place + 1)?;
        self.table.at(at).content.steps.remove(place);
        changes.append(&mut self.refold(py, tools, at, place, behind.into_iter().map(Some).collect())?);
        Ok(changes)
    }

    /// Combine from `start` on; the first `new` of them had no result before.
    fn again(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        at: u32,
        start: usize,
        new: usize,
    ) -> PyResult<Changes> {
        let mut old: Vec<Option<Outcome>> = (0..new).map(|_| None).collect();
        old.extend(self.outcomes(py, at, start + new)?.into_iter().map(Some));
        self.refold(py, tools, at, start, old)
    }

    /// Combine from `start` on, where `old` are the results so far: the tombstones of those that changed,
    /// then what holds now.
    fn refold(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        at: u32,
        start: usize,
        old: Vec<Option<Outcome>>,
    ) -> PyResult<Changes> {
        let (mut tombstones, mut changes) = (Vec::new(), Vec::new());
        for (place, old) in (start..).zip(old) {
            let row = self.table.at(at).content.steps[place]
                .row
                .clone()
                .expect("what is combined again has its row");
            let mut out = Vec::new();
            let (accumulator, made) = self.stepped(py, tools, at, place, &row, &mut out)?;
            let now = made.clone().unwrap_or_else(|| Outcome { encoded: out.into(), error: false });
            let step = &mut self.table.at(at).content.steps[place];
            (step.accumulator, step.made) = (accumulator, made);
            let meta = step.meta.clone();
            if let Some(old) = old {
                if old.encoded == now.encoded {
                    continue;
                }
                tombstones.push((meta.clone(), old, true));
            }
            changes.push((meta, now, false));
        }
        tombstones.append(&mut changes);
        Ok(tombstones)
    }

    /// The results as they are, from `start` on.
    fn outcomes(&mut self, py: Python<'_>, at: u32, start: usize) -> PyResult<Vec<Outcome>> {
        (start..self.table.at(at).content.steps.len()).map(|place| self.outcome(py, at, place)).collect()
    }

    fn outcome(&mut self, py: Python<'_>, at: u32, place: usize) -> PyResult<Outcome> {
        let Steps { steps, values } = &self.table.at(at).content;
        let step = &steps[place];
        if let Some(made) = &step.made {
            return Ok(made.clone());
        }
        let (Accumulator::Known(known), Some(row)) = (&step.accumulator, &step.row) else {
            unreachable!("Python's results are kept")
        };
        let mut out = Vec::new();
        let done = self.emit.put(py, &mut out, *known, values, row.bytes());
        assert!(done, "what was emitted natively once can be again");
        Ok(Outcome { encoded: out.into(), error: false })
    }
}
