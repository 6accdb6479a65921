//! Shards: the reduce of `model/windows/process.py`, whose accumulator is the states of many places. The same
//! results, and rows of snapshots that give the same states, as `reduce.rs` with that fold.
//!
//! There a version of the accumulator is a value of its own. Here a shard is kept as it is now, and each step
//! remembers what it changed: going back undoes steps, and what stands behind a late item is undone and taken
//! again.
//!
//!     steps   x1   x3          x2 comes: undo x3, take x2, take x3 again
//!     bases   | committed cut | announced cut | minimal time |      what changed between two of them, in one piece
//!
//! Does not: know what a step does (steps.rs), or how a shard is written (shard_rows.rs).

use crate::meta::{Floor, Meta};
use crate::python::reference::{unmatched, Tools};
use crate::state::keyed::{Content, Table};
use crate::state::reduce::{encoded, Changes, Fold, TRIM_ABOVE};
use crate::state::steps::Steps;
use hashbrown::{HashMap, HashSet};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The canonical encoding of a place.
pub type Place = Rc<[u8]>;

/// What a program keeps in a place.
pub enum State {
    /// `(count,)`, of a window that counts.
    Count(i64),
    Object(Py<PyAny>),
}

impl State {
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            State::Count(count) => Ok(PyTuple::new(py, [count])?.into_any()),
            State::Object(object) => Ok(object.bind(py).clone()),
        }
    }

    pub fn is(&self, other: &State) -> bool {
        match (self, other) {
            (State::Count(one), State::Count(other)) => one == other,
            (State::Object(one), State::Object(other)) => one.is(other),
            _ => false,
        }
    }
}

/// A state, and when it is due.
pub struct Held {
    pub state: State,
    step: i64,
    time: i64,
}

/// No step, and no time: two plain numbers take half of what two options do, a key.
const NONE: i64 = i64::MIN;

impl Held {
    /// `due`: the number of the step in which it is due; `time`: the time itself, where that is known.
    pub fn new(state: State, due: Option<i64>, time: Option<i64>) -> Self {
        Held { state, step: due.unwrap_or(NONE), time: time.unwrap_or(NONE) }
    }

    pub fn due(&self) -> Option<i64> {
        (self.step != NONE).then_some(self.step)
    }

    pub fn time(&self) -> Option<i64> {
        (self.time != NONE).then_some(self.time)
    }

    /// It was restored, and is due in this step.
    pub fn becomes_due(&mut self, step: i64) {
        self.step = step;
    }
}

/// What is known of a shard beside its places.
#[derive(Default)]
pub struct Head {
    /// Has any step succeeded?
    pub begun: bool,
    pub mark: Option<i64>,
    /// A tuple, those of the last step that succeeded; None: there were none.
    pub results: Option<Py<PyAny>>,
}

impl Head {
    pub fn clone_ref(&self, py: Python<'_>) -> Head {
        Head {
            begun: self.begun,
            mark: self.mark,
            results: self.results.as_ref().map(|results| results.clone_ref(py)),
        }
    }
}

/// A shard as it is now.
#[derive(Default)]
pub struct Shard {
    pub head: Head,
    pub held: HashMap<Place, Held>,
    pub due: BTreeMap<i64, HashSet<Place>>,
}

/// What places had before a step, in the order of its changes.
pub type Changed = Vec<(Place, Option<Held>)>;

impl Shard {
    /// A place, and what it holds. One that is there already is the same allocation everywhere.
    pub fn at(&self, encoded: Vec<u8>) -> (Place, Option<&Held>) {
        match self.held.get_key_value(&encoded[..]) {
            Some((place, held)) => (place.clone(), Some(held)),
            None => (encoded.into(), None),
        }
    }

    /// Put `after` in a place. What was there before goes to `changed`.
    pub fn put(&mut self, changed: &mut Changed, place: Place, after: Option<Held>) {
        let before = self.exchange(&place, after);
        changed.push((place, before));
    }

    fn exchange(&mut self, place: &Place, after: Option<Held>) -> Option<Held> {
        let new = after.as_ref().and_then(|held| held.due());
        let before = match after {
            Some(held) => self.held.insert(place.clone(), held),
            None => self.held.remove(place),
        };
        let old = before.as_ref().and_then(|held| held.due());
        if old != new {
            if let Some(number) = old {
                let places = self.due.get_mut(&number).expect("a state is due where it says");
                places.remove(place);
                if places.is_empty() {
                    self.due.remove(&number);
                }
            }
            if let Some(number) = new {
                self.due.entry(number).or_default().insert(place.clone());
            }
        }
        before
    }

    pub fn undo(&mut self, changed: Changed) {
        for (place, before) in changed.into_iter().rev() {
            self.exchange(&place, before);
        }
    }
}

/// What a step gave.
pub enum Given {
    /// A tuple; None: nothing.
    Results(Option<Py<PyAny>>),
    Error(Py<PyAny>),
}

impl Given {
    fn object<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Given::Results(results) => results.as_ref().map(|results| results.bind(py).clone()),
            Given::Error(error) => Some(error.bind(py).clone()),
        }
    }
}

/// An item above minimal time, what it changed, and what it gave.
pub struct Step {
    pub meta: Meta,
    payload: Py<PyAny>,
    /// As it was before.
    pub head: Head,
    pub changed: Changed,
    given: Given,
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

    fn undo_last(&mut self) -> Step {
        let mut step = self.steps.pop().expect("there is one");
        self.shard.undo(std::mem::take(&mut step.changed));
        self.shard.head = std::mem::take(&mut step.head);
        step
    }

    /// The steps from `place` on are undone, the last one first; in their order.
    fn undone(&mut self, place: usize) -> Vec<Step> {
        let mut undone: Vec<Step> = (place..self.steps.len()).map(|_| self.undo_last()).collect();
        undone.reverse();
        undone
    }
}

impl Content for Story {
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
}

/// Bases in the making, from the oldest on.
struct Bases<'a> {
    made: Vec<Base>,
    /// Those that nothing has come behind yet.
    cuts: &'a [Floor],
}

impl Bases<'_> {
    /// One that stays alone moves as it is: it may be large.
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

pub struct Shards {
    pub operation: usize,
    pub table: Table<Story>,
    pub steps: Steps,
    /// The same functions in Python.
    pub fold: Fold,
    /// `reduce.decoded` and `states.delta_state`.
    pub decoded: Py<PyAny>,
    pub delta_state: Py<PyAny>,
}

impl Shards {
    /// An item: the results to invalidate and those that hold now. Without any there is nothing to tell.
    pub fn insert<'py>(
        &mut self,
        tools: &Tools,
        cuts: &[Floor],
        key: &[u8],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Changes<'py>> {
        let py = payload.py();
        let at = self.touched(py, key, slot)?;
        let story = &mut self.table.at(at).content;
        let late = story.steps.last().is_some_and(|last| *meta < last.meta);
        if !late && story.steps.len() > TRIM_ABOVE {
            story.trim(cuts);
        }
        let behind = story.undone(story.steps.partition_point(|step| step.meta <= *meta));
        let given = self.take(tools, at, meta.clone(), payload)?;
        let (mut changes, mut again) = self.again(py, tools, at, behind)?;
        changes.extend(given.map(|value| (meta.clone(), value, false)));
        changes.append(&mut again);
        Ok(changes)
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
        let at = self.touched(py, key, slot)?;
        let victim = encoded(payload)?;
        let story = &mut self.table.at(at).content;
        let start = story.steps.partition_point(|step| step.meta < *meta);
        let end = story.steps.partition_point(|step| step.meta <= *meta);
        for place in start..end {
            if encoded(story.steps[place].payload.bind(py))? == victim {
                let behind = story.undone(place + 1);
                let gone = story.undo_last();
                let mut changes: Changes<'py> =
                    gone.given.object(py).into_iter().map(|value| (gone.meta.clone(), value, true)).collect();
                let (mut tombstones, mut again) = self.again(py, tools, at, behind)?;
                changes.append(&mut tombstones);
                changes.append(&mut again);
                return Ok(changes);
            }
        }
        Err(unmatched(py, &format!("operation {}", self.operation), meta))
    }

    fn touched(&mut self, py: Python<'_>, key: &[u8], slot: u16) -> PyResult<u32> {
        let at = self.table.touched(key, slot);
        self.unstore(py, at)?;
        Ok(at)
    }

    /// Make a stored shard one to work with.
    pub fn unstore(&mut self, py: Python<'_>, at: u32) -> PyResult<()> {
        if let Some(stored) = self.table.at(at).content.stored.take() {
            let accumulator = self.decoded.bind(py).call1((stored,))?;
            if !self.fold.is_nothing(&accumulator) {
                self.table.at(at).content.shard = self.steps.restored(&accumulator)?;
            }
        }
        Ok(())
    }

    /// A step behind all others: what it gave, if that is anything.
    fn take<'py>(
        &mut self,
        tools: &Tools,
        at: u32,
        meta: Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = payload.py();
        let story = &mut self.table.at(at).content;
        let (head, mut changed) = (story.shard.head.clone_ref(py), Changed::new());
        let given = match self.steps.take(&mut story.shard, &mut changed, payload) {
            Ok(results) => {
                story.shard.head.begun = true;
                story.shard.head.results = results.as_ref().map(|results| results.clone_ref(py));
                Given::Results(results)
            }
            Err(error) => {
                story.shard.undo(std::mem::take(&mut changed));
                story.shard.head = head.clone_ref(py);
                Given::Error(tools.error_of(&self.fold.users_combine, error, payload)?.unbind())
            }
        };
        let told = given.object(py);
        story.steps.push(Step { meta, payload: payload.clone().unbind(), head, changed, given });
        Ok(told)
    }

    /// Take steps again: the tombstones of results that changed, and what holds now.
    fn again<'py>(
        &mut self,
        py: Python<'py>,
        tools: &Tools,
        at: u32,
        undone: Vec<Step>,
    ) -> PyResult<(Changes<'py>, Changes<'py>)> {
        let (mut tombstones, mut changes) = (Vec::new(), Vec::new());
        for step in undone {
            let old = step.given.object(py);
            let new = self.take(tools, at, step.meta.clone(), step.payload.bind(py))?;
            let same = match (&old, &new) {
                (None, None) => true,
                (Some(old), Some(new)) => old.is(new) || encoded(old)? == encoded(new)?,
                _ => false,
            };
            if !same {
                tombstones.extend(old.map(|value| (step.meta.clone(), value, true)));
                changes.extend(new.map(|value| (step.meta, value, false)));
            }
        }
        Ok((tombstones, changes))
    }
}
