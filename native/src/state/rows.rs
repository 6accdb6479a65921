//! Rows of snapshots: what of a bucket is stored at a live cut, its whole state or a change of it.
//!
//! Does not: know a state or a change (reduce, folded and shards do).

use crate::meta::Floor;
use crate::state::buckets::{Changed, Content};
use crate::state::keyed::Table;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// State whose rows may be changes. `before` and `newest` count the items below two cuts.
pub trait Rows {
    type Content: Content;

    fn table(&mut self) -> &mut Table<Self::Content>;

    /// The change between two items of a bucket; None if it is not worth it.
    fn change<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        before: usize,
        newest: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>>;

    /// The whole state behind an item of a bucket.
    fn full(&mut self, py: Python<'_>, at: u32, newest: usize) -> PyResult<Vec<u8>>;

    /// The row of a bucket; None if nothing has changed between the cuts.
    fn row<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        committed: &Floor,
        cut: &Floor,
    ) -> PyResult<Option<Changed<'py>>> {
        let Some((before, newest)) = self.table().between(at, committed, cut) else { return Ok(None) };
        // a change needs a state to stand behind: one at the committed cut, and one that was stored in full
        if self.table().at(at).is_stored(before) {
            if let Some(change) = self.change(py, at, before, newest)? {
                if self.table().at(at).takes(change.as_bytes().len()) {
                    return Ok(Some(self.table().row(py, at, false, change)));
                }
            }
        }
        let state = PyBytes::new(py, &self.full(py, at, newest)?);
        Ok(Some(self.table().row(py, at, true, state)))
    }
}
