//! Transactions: the rows of a graph's tables, and the transactions that touch them. The mirror of
//! `core/dataflow/transactions.py`, item by item in the same order.

mod contention;
mod decider;
mod part;
mod pending;
mod rules;
mod view;

pub use contention::Contention;
pub use decider::{Decider, Functions};
pub use part::Part;
pub use rules::Tables;
pub use view::View;

use crate::meta::{Floor, Meta};
use crate::payload::attribute::Attribute;
use crate::python::reference::unmatched;
use crate::state::accumulators::{encoded, Accumulator, Accumulators, Changes, Entry, TRIM_ABOVE};
use crate::state::buckets::{Changed, Content};
use crate::state::rows::Rows;
use crate::state::transactions::decider::Writes;
use crate::state::transactions::pending::{Pending, RowKey, Transaction};
use crate::state::transactions::view::below;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

type Value = Py<PyAny>;

/// The whole state of a row that was deleted (`chain.DELETED`).
const DELETED: &[u8] = b"\xc1";

pub struct Transactions {
    pub kept: Accumulators<u32>,
    pending: Pending<Value>,
    decider: Decider,
    /// The one of all of them.
    pub slot: u16,
    pub contention: Contention,
    /// `Decision.aborted`.
    aborted: Attribute,
}

impl Transactions {
    pub fn new(py: Python<'_>, kept: Accumulators<u32>, decider: Decider) -> Self {
        let (pending, contention) = (Pending::new(), Contention::default());
        let aborted = Attribute::new(py, "aborted");
        Transactions { kept, pending, decider, slot: 0, contention, aborted }
    }

    /// A transaction: its result. Those above wait to be looked at again.
    pub fn insert<'py>(
        &mut self,
        cuts: &[Floor],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
        cause: u64,
    ) -> PyResult<Changes<'py>> {
        let py = payload.py();
        self.slot = slot;
        self.forget_final(py, cuts, TRIM_ABOVE)?;
        let item = Transaction::new(meta.clone(), payload.clone().unbind(), encoded(payload)?.into());
        let one = self.pending.add(item);
        self.run(py, cuts, one, cause)?;
        Ok(vec![(meta.clone(), self.result(py, one), false)])
    }

    /// A tombstone for a transaction that was inserted before: its result is invalid.
    pub fn remove<'py>(
        &mut self,
        cuts: &[Floor],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
        cause: u64,
    ) -> PyResult<Changes<'py>> {
        let py = payload.py();
        self.slot = slot;
        let Some(gone) = self.pending.take_out(meta, &encoded(payload)?) else {
            return Err(unmatched(py, &format!("operation {}", self.kept.operation), meta));
        };
        let dirty = self.written(py, cuts, gone, Vec::new())?;
        self.pending.wait(dirty, cause);
        let result = self.result(py, gone);
        self.pending.forget(gone);
        Ok(vec![(meta.clone(), result, true)])
    }

    /// What is above a live cut comes again.
    pub fn go_back(&mut self) {
        self.pending.clear();
    }

    /// The row of a bucket in a snapshot; None if nothing has changed between the cuts.
    pub fn row<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        committed: &Floor,
        cut: &Floor,
    ) -> PyResult<Option<Changed<'py>>> {
        let Some((before, newest)) = self.kept.table.between(at, committed, cut) else { return Ok(None) };
        let table = &mut self.kept.table;
        let bucket = table.at(at);
        let (is_deleted, chain) = (bucket.content.is_deleted(newest), bucket.chain);
        let is_stored = before > 0 && !bucket.content.is_deleted(before);
        if !is_stored {
            table.resize(at, 0, chain); // (!) behind a deletion a row is full
        }
        if !is_deleted {
            return self.kept.row(py, at, committed, cut);
        }
        let row = table.row(py, at, true, PyBytes::new(py, DELETED));
        table.resize(at, 0, 0);
        Ok(is_stored.then_some(row))
    }

    // --- deciding ------------------------------------------------------------------------------------------

    /// Decide a transaction by what stands below it.
    fn run(&mut self, py: Python<'_>, cuts: &[Floor], one: u32, cause: u64) -> PyResult<()> {
        let (meta, item) = (self.pending.at(one).meta.clone(), self.pending.at(one).item.clone_ref(py));
        let decided = self.decider.decided(&mut self.kept.table, meta, item.bind(py))?;
        self.pending.touch(one, decided.read);
        let its = self.pending.at_mut(one);
        (its.result, its.runs) = (Some(decided.result), its.runs + 1);
        let dirty = self.written(py, cuts, one, decided.writes)?;
        self.pending.wait(dirty, cause);
        Ok(())
    }

    /// Put what a transaction writes now in place of what it wrote. Those above that have to be looked at again.
    fn written(&mut self, py: Python<'_>, cuts: &[Floor], one: u32, now: Writes) -> PyResult<Vec<u32>> {
        let (mut dirty, before) = (Vec::new(), std::mem::take(&mut self.pending.at_mut(one).wrote));
        for (row, old) in &before {
            let new = value_of(&now, row);
            let unchanged = match new {
                Some(new) => same_row(py, old.as_ref(), new.as_ref())?,
                None => false,
            };
            if !unchanged {
                self.put(py, cuts, one, row, true, new);
                self.changed(row, one, &mut dirty);
            }
        }
        for (row, new) in now.iter().filter(|(row, _)| value_of(&before, row).is_none()) {
            self.put(py, cuts, one, row, false, Some(new));
            self.changed(row, one, &mut dirty);
        }
        self.pending.at_mut(one).wrote = now;
        Ok(dirty)
    }

    /// A row has changed at the place of `one`.
    fn changed(&mut self, row: &RowKey, one: u32, dirty: &mut Vec<u32>) {
        let mut above = self.pending.above(row, one);
        if !above.is_empty() {
            self.contention.changed(row, above.len());
        }
        dirty.append(&mut above);
    }

    /// What a transaction has written to a row is `now` instead of what it `had` written.
    fn put(
        &mut self,
        py: Python<'_>,
        cuts: &[Floor],
        one: u32,
        row: &RowKey,
        had: bool,
        now: Option<&Option<Value>>,
    ) {
        let meta = &self.pending.at(one).meta;
        let at = self.kept.table.touched(row, self.slot);
        let entries = &mut self.kept.table.at(at).content;
        if had {
            // from its place on: below minimal time numbers are those of others
            let start = entries.below(meta);
            let its = entries.0[start..].iter().position(|entry| entry.item == Some(one));
            entries.0.remove(start + its.expect("what it wrote is there"));
        }
        let Some(now) = now else { return };
        if entries.0.len() > TRIM_ABOVE {
            entries.trim(cuts);
        }
        let place = entries.0.partition_point(|entry| entry.meta <= *meta);
        let accumulator =
            now.as_ref().map_or(Accumulator::Deleted, |now| Accumulator::Value(now.clone_ref(py)));
        entries.0.insert(place, Entry { meta: meta.clone(), item: Some(one), accumulator });
    }

    // --- repair --------------------------------------------------------------------------------------------

    /// Is there any to be looked at again, below `limit` if it is given?
    pub fn waits(&self, limit: Option<&Meta>) -> bool {
        self.pending.waits(limit.map(|limit| &limit[..]))
    }

    /// Look again at the lowest that waits. The cause under which it must be told, and what has changed.
    pub fn look<'py>(&mut self, py: Python<'py>, cuts: &[Floor]) -> PyResult<(u64, Changes<'py>)> {
        let (one, cause) = self.pending.lowest().expect("it waits");
        if self.has_read_what_is_there(py, one)? {
            return Ok((cause, Vec::new()));
        }
        let before = self.result(py, one);
        self.run(py, cuts, one, cause)?;
        let (now, meta) = (self.result(py, one), self.pending.at(one).meta.clone());
        if encoded(&before)? == encoded(&now)? {
            return Ok((cause, Vec::new()));
        }
        Ok((cause, vec![(meta.clone(), before, true), (meta, now, false)]))
    }

    fn has_read_what_is_there(&mut self, py: Python<'_>, one: u32) -> PyResult<bool> {
        let one = self.pending.at(one);
        for (row, read) in &one.read {
            let now = below(py, &mut self.kept.table, &self.kept.decoded, row, &one.meta)?;
            if !same_row(py, read.as_ref(), now.as_ref().map(Bound::as_unbound))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn result<'py>(&self, py: Python<'py>, one: u32) -> Bound<'py, PyAny> {
        self.pending.at(one).result.as_ref().expect("it was decided").bind(py).clone()
    }

    /// Nothing comes any more below minimal time, so nothing there is looked at again. Fewer than `least` wait.
    pub fn forget_final(&mut self, py: Python<'_>, cuts: &[Floor], least: usize) -> PyResult<()> {
        let count = cuts.last().map_or(0, |newest| self.pending.below(newest));
        if count < least {
            return Ok(());
        }
        for one in self.pending.take_first(count) {
            let (told, runs) = (self.result(py, one), self.pending.at(one).runs);
            let aborted = match told.cast_exact::<PyTuple>() {
                Ok(told) => self.aborted.of(&told.get_item(1)?)?.is_truthy()?,
                Err(_) => false, // an error item
            };
            self.contention.settle(runs, aborted);
            self.pending.forget(one);
        }
        Ok(())
    }
}

fn value_of<'a>(rows: &'a [(RowKey, Option<Value>)], row: &RowKey) -> Option<&'a Option<Value>> {
    rows.iter().find(|(other, _)| other == row).map(|(_, value)| value)
}

/// Are they one value, or none both?
fn same_row(py: Python<'_>, one: Option<&Value>, other: Option<&Value>) -> PyResult<bool> {
    match (one, other) {
        (Some(one), Some(other)) => same(py, one, other),
        (None, None) => Ok(true),
        _ => Ok(false),
    }
}

/// Are they one value? By encoding: to `==` 1, True and 1.0 are one (!).
fn same(py: Python<'_>, one: &Value, other: &Value) -> PyResult<bool> {
    Ok(one.is(other) || encoded(one.bind(py))? == encoded(other.bind(py))?)
}
