//! Rows of shards: what a snapshot stores of one at a live cut.
//!
//! Keeps: what is read back is the shard at the cut. Does not: give the same deltas as Python, which forgets
//! after a while what changed.

use crate::payload::row::object_of;
use crate::state::accumulators::encoded;
use crate::state::buckets::Content;
use crate::state::keyed::Table;
use crate::state::rows::Rows;
use crate::state::shards::story::Story;
use crate::state::shards::versions::At;
use crate::state::shards::writer::Writer;
use crate::state::shards::Shards;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Rows for Shards {
    type Content = Story;

    fn table(&mut self) -> &mut Table<Story> {
        &mut self.table
    }

    fn change<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        before: usize,
        newest: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let story = &self.table.at(at).content;
        let (old, new) = (At::before(story, before), At::before(story, newest));
        if !old.head.begun || !new.head.begun {
            return Ok(None);
        }
        let writer = Writer { py, tag: self.steps.tag, delta_state: &self.delta_state };
        Ok(Some(PyBytes::new(py, &writer.delta(&old, &new)?)))
    }

    fn full(&mut self, py: Python<'_>, at: u32, newest: usize) -> PyResult<Vec<u8>> {
        let story = &self.table.at(at).content;
        let at = At::before(story, newest);
        if !at.head.begun {
            return encoded(self.fold.nothing.bind(py));
        }
        Writer { py, tag: self.steps.tag, delta_state: &self.delta_state }.full(&at)
    }
}

impl Shards {
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
}
