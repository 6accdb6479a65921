//! Shards: the reduce of `model/windows/process.py`, whose accumulator is the states of many places. The same
//! results, and rows of snapshots that give the same states, as `reduce/` with that fold.
//!
//! There a version of the accumulator is a value of its own. Here a shard is kept as it is now, and each step
//! remembers what it changed: going back undoes steps, and what stands behind a late item is undone and taken
//! again.
//!
//!     steps   x1   x3          x2 comes: undo x3, take x2, take x3 again
//!     bases   | committed cut | announced cut | minimal time |     what changed between two, in one piece
//!
//! Does not: know what a step does (steps.rs), or how a shard is written (writer.rs).

mod inputs;
mod marks;
mod panes;
mod rows;
mod shard;
mod steps;
mod stored;
mod story;
mod versions;
mod writer;

pub use inputs::inputs;
pub use panes::{Folding, Panes};
pub use steps::Steps;

use crate::meta::{Floor, Meta};
use crate::python::reference::{unmatched, Tools};
use crate::state::accumulators::{encoded, Changes, TRIM_ABOVE};
use crate::state::buckets::Content;
use crate::state::keyed::Table;
use crate::state::reduce::Fold;
use crate::state::shards::shard::Changed;
use crate::state::shards::story::{Given, Step, Story};
use pyo3::prelude::*;

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
    fn unstore(&mut self, py: Python<'_>, at: u32) -> PyResult<()> {
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
