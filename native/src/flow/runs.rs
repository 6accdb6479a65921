//! Runs: what is at hand is worked on in the order of metas, each item with everything that follows of it.
//! The mirror of `Dataflow._process`.
//!
//! Does not: work on what is put off for a later pass (passes.rs), or on what goes round (rounds.rs).

use crate::flow::items::{Payload, Work};
use crate::flow::passes::{Step, ALL};
use crate::flow::stages::Ahead;
use crate::flow::Flow;
use pyo3::prelude::*;

impl Flow {
    /// All of `work` in the order of metas, then the passes behind the first.
    pub(super) fn process(&mut self, py: Python<'_>, mut work: Vec<Work>) -> PyResult<()> {
        self.pass = if self.others_first { ALL } else { 0 }; // new runs alone come to no state
        self.later.clear();
        work.sort_by(|one, other| one.meta.cmp(&other.meta).then(one.tombstone.cmp(&other.tombstone)));
        if let Some(transactions) = self.transactions() {
            transactions.next_pass();
        }
        if let Some(first) = work.first() {
            self.meter.take_up(first.vertex); // what is asked ahead of all
        }
        let ahead = self.ahead(py, work.iter().map(|item| Some((item.vertex, &item.payload))))?;
        for (number, item) in work.into_iter().enumerate() {
            self.go_round_below(py, &item.meta)?;
            if self.vertices[item.vertex].pass > self.pass {
                self.later.push(Step::Door(item))
            } else {
                self.at_hand(py, &ahead, number, item)?
            }
        }
        self.settle(py)?;
        self.next_passes(py)?;
        self.pass = ALL;
        self.meter.end();
        Ok(())
    }

    /// An item whose turn it is.
    pub(super) fn at_hand(
        &mut self,
        py: Python<'_>,
        ahead: &Ahead,
        number: usize,
        item: Work,
    ) -> PyResult<()> {
        self.cause = item.cause;
        self.meter.take_up(item.vertex);
        match (item.payload, item.place) {
            (payload, _) if ahead.has(number) => {
                self.go_ahead(py, ahead, number, item.meta, payload, item.tombstone)
            }
            (Payload::Object(payload), Some((key, slot))) => {
                self.at_home(item.vertex, &key, slot, item.meta, payload.into_bound(py), item.tombstone)
            }
            (Payload::Object(payload), None) => {
                self.arrive(item.vertex, item.meta, payload.into_bound(py), item.tombstone)
            }
            (Payload::Row(row), Some((key, slot))) => {
                self.row_at_home(py, item.vertex, &key, slot, item.meta, row, item.tombstone)
            }
            (Payload::Row(row), None) => self.row_arrives(py, item.vertex, item.meta, row, item.tombstone),
        }
    }
}
