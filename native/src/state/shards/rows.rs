//! Rows of shards: what a snapshot stores of one at a live cut.
//!
//! Keeps: what is read back is the shard at the cut. Does not: give the same deltas as Python, which forgets
//! after a while what changed.

use crate::meta::Floor;
use crate::payload::row::object_of;
use crate::state::buckets::Changed;
use crate::state::reduce::encoded;
use crate::state::shards::story::Story;
use crate::state::shards::versions::At;
use crate::state::shards::writer::Writer;
use crate::state::shards::Shards;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Shards {
    /// What changed of a bucket between two cuts.
    pub fn row<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        committed: &Floor,
        cut: &Floor,
    ) -> PyResult<Option<Changed<'py>>> {
        if !self.table.exists(at) {
            return Ok(None);
        }
        let story = &self.table.at(at).content;
        let (before, newest) = (story.below(committed), story.below(cut));
        if newest == before {
            return Ok(None);
        }
        let (full, state) = match self.change(py, at, before, newest)? {
            Some(change) => (false, change),
            None => (true, self.full(py, at, newest)?),
        };
        Ok(Some(self.table.at(at).row(py, full, PyBytes::new(py, &state))))
    }

    /// The change between two numbers of steps, if it is worth it.
    fn change(&mut self, py: Python<'_>, at: u32, before: usize, newest: usize) -> PyResult<Option<Vec<u8>>> {
        if before == 0 || self.table.at(at).full == 0 {
            return Ok(None);
        }
        let change = {
            let story = &self.table.at(at).content;
            let (old, new) = (At::before(story, before), At::before(story, newest));
            if !old.head.begun || !new.head.begun {
                return Ok(None);
            }
            Writer { py, tag: self.steps.tag, delta_state: &self.delta_state }.delta(&old, &new)?
        };
        Ok(self.table.at(at).takes(change.len()).then_some(change))
    }

    /// The accumulator below a live cut; None if there is none.
    pub fn state_at<'py>(
        &mut self,
        py: Python<'py>,
        key: &[u8],
        cut: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(at) = self.table.find(key) else { return Ok(None) };
        self.unstore(py, at)?;
        let end = self.table.at(at).content.below(cut);
        if end == 0 {
            return Ok(None);
        }
        object_of(py, &self.full(py, at, end)?).map(Some)
    }

    fn full(&mut self, py: Python<'_>, at: u32, number: usize) -> PyResult<Vec<u8>> {
        let story = &self.table.at(at).content;
        let at = At::before(story, number);
        if !at.head.begun {
            return encoded(self.fold.nothing.bind(py));
        }
        Writer { py, tag: self.steps.tag, delta_state: &self.delta_state }.full(&at)
    }
}

impl Story {
    /// How many bases and steps are below a cut.
    fn below(&self, limit: &[u8]) -> usize {
        let bases = self.bases.partition_point(|base| base.meta[..] < *limit);
        bases + self.steps.partition_point(|step| step.meta[..] < *limit)
    }
}
