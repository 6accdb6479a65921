//! Story: a shard, and the steps that made it what it is, as far as anyone may go back.
//!
//! Keeps: to undo all steps and bases behind a live cut gives the shard at that cut. Does not: take a step
//! (mod.rs).

use crate::meta::{Floor, Meta};
use crate::state::buckets::Content;
use crate::state::shards::shard::{Changed, Head, Held, Place, Shard};
use hashbrown::HashMap;
use pyo3::prelude::*;

/// The results of a step.
pub enum Given {
    /// A tuple; None: nothing.
    Results(Option<Py<PyAny>>),
    Error(Py<PyAny>),
}

impl Given {
    pub(super) fn object<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Given::Results(results) => results.as_ref().map(|results| results.bind(py).clone()),
            Given::Error(error) => Some(error.bind(py).clone()),
        }
    }
}

/// An item above minimal time, what it changed, and what it gave.
pub struct Step {
    pub meta: Meta,
    pub(super) payload: Py<PyAny>,
    /// As it was before.
    pub head: Head,
    pub changed: Changed,
    pub(super) given: Given,
}

/// All steps below a live cut, and above the cut before, in one.
pub struct Base {
    pub meta: Meta,
    pub head: Head,
    pub changed: HashMap<Place, Option<Held>>,
}

#[derive(Default)]
pub struct Story {
    pub shard: Shard,
    pub bases: Vec<Base>,
    pub steps: Vec<Step>,
    /// As it was stored, until it is touched: a tuple of a full state and the changes behind it.
    pub stored: Option<Py<PyAny>>,
}

impl Story {
    pub fn restored(&mut self, states: Py<PyAny>) {
        self.bases =
            vec![Base { meta: Meta::from_slice(&[0; 8]), head: Head::default(), changed: HashMap::new() }];
        self.stored = Some(states);
    }

    fn last(&self) -> Option<&Meta> {
        self.steps.last().map(|step| &step.meta).or(self.bases.last().map(|base| &base.meta))
    }

    pub(super) fn undo_last(&mut self) -> Step {
        let mut step = self.steps.pop().expect("there is one");
        self.shard.undo(std::mem::take(&mut step.changed));
        self.shard.head = std::mem::take(&mut step.head);
        step
    }

    /// The steps from `place` on are undone, the last one first; in their order.
    pub(super) fn undone(&mut self, place: usize) -> Vec<Step> {
        let mut undone: Vec<Step> = (place..self.steps.len()).map(|_| self.undo_last()).collect();
        undone.reverse();
        undone
    }
}

impl Content for Story {
    /// Bases count as items: the newest one below a cut is what stands there.
    fn below(&self, cut: &[u8]) -> usize {
        let bases = self.bases.partition_point(|base| base.meta[..] < *cut);
        bases + self.steps.partition_point(|step| step.meta[..] < *cut)
    }

    /// Steps below the last cut become one base a cut. What the first one changed nobody goes back behind.
    fn trim(&mut self, cuts: &[Floor]) {
        let limit = cuts.last().expect("there is always a committed cut");
        let live = self.steps.partition_point(|step| step.meta[..] < limit[..]);
        let mut bases = Bases { made: Vec::with_capacity(cuts.len()), cuts };
        std::mem::take(&mut self.bases).into_iter().for_each(|base| bases.add_base(base));
        self.steps.drain(..live).for_each(|step| bases.add_step(step));
        self.bases = bases.made;
    }

    fn roll_back(&mut self, cut: &Floor) -> bool {
        while self.steps.last().is_some_and(|step| step.meta[..] >= cut[..]) {
            self.undo_last();
        }
        while self.bases.last().is_some_and(|base| base.meta[..] >= cut[..]) {
            let base = self.bases.pop().expect("there is one");
            self.shard.undo(base.changed.into_iter().collect());
            self.shard.head = base.head;
        }
        !self.is_empty()
    }

    fn reaches(&self, cut: &Floor) -> bool {
        self.last().is_some_and(|meta| meta[..] >= cut[..])
    }

    fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.bases.is_empty()
    }

    fn stored(&self) -> Option<&Py<PyAny>> {
        self.stored.as_ref()
    }
}

/// Bases in the making, from the oldest on.
struct Bases<'a> {
    made: Vec<Base>,
    /// Those that nothing has come behind yet.
    cuts: &'a [Floor],
}

impl Bases<'_> {
    /// Add a base, or join it to the last. One that stays alone moves as it is: it may be large.
    fn add_base(&mut self, mut base: Base) {
        if self.goes_on(&base.meta) {
            return self.grow(base.meta, base.changed);
        }
        if self.made.is_empty() {
            base.changed = HashMap::new();
        }
        self.made.push(base);
    }

    fn add_step(&mut self, step: Step) {
        if !self.goes_on(&step.meta) {
            self.made.push(Base { meta: step.meta.clone(), head: step.head, changed: HashMap::new() });
        }
        self.grow(step.meta, step.changed);
    }

    /// Is there no cut between the last base and this meta?
    fn goes_on(&mut self, meta: &Meta) -> bool {
        let passed = self.cuts.iter().take_while(|cut| meta[..] >= cut[..]).count();
        self.cuts = &self.cuts[passed..];
        passed == 0 && !self.made.is_empty()
    }

    fn grow(&mut self, meta: Meta, changed: impl IntoIterator<Item = (Place, Option<Held>)>) {
        let first = self.made.len() == 1;
        let last = self.made.last_mut().expect("one was added");
        last.meta = meta;
        if !first {
            changed.into_iter().for_each(|(place, before)| {
                last.changed.entry(place).or_insert(before); // what it was before all of them
            });
        }
    }
}
