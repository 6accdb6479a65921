//! Transactions: the rows of a graph's tables, and the transactions that touch them. The mirror of
//! `core/dataflow/tables/transactions.py`, item by item in the same order.

mod contention;
mod decider;
mod part;
mod patience;
mod pending;
mod rules;
mod view;

pub use contention::Contention;
pub use decider::{Decider, Functions};
pub use part::Part;
pub use patience::Patience;
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
    pub patience: Patience,
    /// The pass that is under way.
    pass: u64,
    /// Below it only transactions that are put off could still change what others read.
    pub reached: Floor,
    /// The one of all of them.
    pub slot: u16,
    pub contention: Contention,
    /// `Decision.aborted`.
    aborted: Attribute,
}

impl Transactions {
    pub fn new(py: Python<'_>, kept: Accumulators<u32>, decider: Decider, patience: Patience) -> Self {
        let (pending, contention) = (Pending::new(), Contention::default());
        let (pass, reached, aborted) = (0, Floor::default(), Attribute::new(py, "aborted"));
        Transactions { kept, pending, decider, patience, pass, reached, slot: 0, contention, aborted }
    }

    /// What comes from now on comes later than all before.
    pub fn next_pass(&mut self) {
        self.pass += 1;
    }

    /// A transaction: its result, unless it is put off. Those above wait to be looked at again.
    pub fn insert<'py>(
        &mut self,
        cuts: &[Floor],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Changes<'py>> {
        let py = payload.py();
        self.slot = slot;
        self.forget_final(py, cuts, TRIM_ABOVE)?;
        let item =
            Transaction::new(meta.clone(), payload.clone().unbind(), encoded(payload)?.into(), self.pass);
        let one = self.pending.add(item);
        if self.patience.waits() {
            self.pending.put_off(one);
            return Ok(Vec::new());
        }
        self.run(py, cuts, one)?;
        Ok(vec![(meta.clone(), self.result(py, one), false)])
    }

    /// A tombstone for a transaction that was inserted before: its result, if it has one, is invalid.
    pub fn remove<'py>(
        &mut self,
        cuts: &[Floor],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Changes<'py>> {
        let py = payload.py();
        self.slot = slot;
        let Some(gone) = self.pending.take_out(meta, &encoded(payload)?) else {
            return Err(unmatched(py, &format!("operation {}", self.kept.operation), meta));
        };
        let dirty = self.written(py, cuts, gone, Vec::new())?;
        self.pending.wait(dirty, self.patience.runs);
        let result = self.pending.at(gone).result.as_ref().map(|result| result.bind(py).clone());
        self.pending.forget(gone);
        Ok(result.map(|result| (meta.clone(), result, true)).into_iter().collect())
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
    fn run(&mut self, py: Python<'_>, cuts: &[Floor], one: u32) -> PyResult<()> {
        let (meta, item) = (self.pending.at(one).meta.clone(), self.pending.at(one).item.clone_ref(py));
        let decided = self.decider.decided(&mut self.kept.table, meta, item.bind(py))?;
        self.pending.touch(one, decided.read);
        self.pending.at_mut(one).result = Some(decided.result);
        let dirty = self.written(py, cuts, one, decided.writes)?;
        self.pending.wait(dirty, self.patience.runs);
        self.count_run(one);
        Ok(())
    }

    fn count_run(&mut self, one: u32) {
        let its = self.pending.at_mut(one);
        let came = its.since;
        its.runs += 1;
        if its.runs > 1 {
            return self.patience.repaired();
        }
        if self.patience.waits() {
            let read = self.pending.at(one).read.iter().map(|(row, _)| self.pending.row_since(row, one));
            let since = read.max().unwrap_or(0).max(came);
            self.pending.at_mut(one).since = since;
        }
        self.patience.decided(self.pending.at(one).since > came);
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

    /// The time of the lowest that is put off, which minimal time must not pass (!). None: nobody is.
    pub fn undecided(&self) -> Option<u64> {
        self.pending.undecided()
    }

    /// Is there any to be looked at, below `limit` if it is given?
    pub fn waits(&self, limit: Option<&Meta>) -> bool {
        self.pending.waits(limit.map(|limit| &limit[..]), &self.reached)
    }

    /// Look at the lowest that waits. What has changed, all at its meta.
    pub fn look<'py>(&mut self, py: Python<'py>, cuts: &[Floor]) -> PyResult<Changes<'py>> {
        let one = self.pending.take_lowest(&self.reached).expect("it waits");
        let meta = self.pending.at(one).meta.clone();
        if self.pending.at(one).runs == 0 {
            self.run(py, cuts, one)?;
            return Ok(vec![(meta, self.result(py, one), false)]);
        }
        if self.has_read_what_is_there(py, one)? {
            return Ok(Vec::new());
        }
        let before = self.result(py, one);
        self.run(py, cuts, one)?;
        let now = self.result(py, one);
        if encoded(&before)? == encoded(&now)? {
            return Ok(Vec::new());
        }
        Ok(vec![(meta.clone(), before, true), (meta, now, false)])
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
