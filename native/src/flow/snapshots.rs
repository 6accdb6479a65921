//! Snapshots: what changed of keyed state between two cuts, and state that is restored from what was stored.
//!
//! Does not: go through buckets for a commit or a recovery, which tables do themselves (state/keyed.rs).

use crate::flow::states::{with_table, State};
use crate::flow::Flow;
use crate::meta::{Floor, Meta};
use crate::payload::codec;
use crate::python::reference;
use crate::state::buckets::{Changed, Content};
use crate::state::rows::Rows;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

pub(super) fn floors(cuts: &Bound<'_, PyList>) -> PyResult<Vec<Floor>> {
    cuts.iter().map(|cut| floor_of(cut.cast::<PyBytes>()?.as_bytes())).collect()
}

pub(super) fn floor_of(cut: &[u8]) -> PyResult<Floor> {
    cut.try_into().map_err(|_| PyValueError::new_err("a floor has eight bytes"))
}

impl Flow {
    pub(super) fn state_mut(&mut self, operation: usize) -> PyResult<&mut State> {
        self.states
            .get_mut(&operation)
            .ok_or_else(|| PyValueError::new_err(format!("vertex {operation} has no state")))
    }

    /// Rows of the next `count` buckets that have changed, each made by `row` (calls.rs says of what).
    pub(super) fn changed_rows<'py>(
        &mut self,
        operation: usize,
        count: usize,
        (number, epoch): (u64, u64),
        committed: &Floor,
        cut: &Floor,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let py = row.py();
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(bucket) = with_table!(self.state_mut(operation)?, table => table.encoding.pop()) else {
                break;
            };
            let made = match self.state_mut(operation)? {
                State::Grouping(state) => state.row(py, bucket, committed, cut)?,
                State::Reduce(state) => state.kept.row(py, bucket, committed, cut)?,
                State::Folded(state) => state.row(py, bucket, committed, cut)?,
                State::Shards(state) => state.row(py, bucket, committed, cut)?,
                State::Transactions(state) => state.row(py, bucket, committed, cut)?,
            };
            rows.push(match made {
                Some(Changed { slot, key, full, state }) => {
                    Some(row.call1(((number, slot, key, epoch, full, state),))?)
                }
                None => None,
            });
        }
        Ok(rows)
    }

    /// Restore buckets from their chains, each of which begins with a whole state.
    pub(super) fn loaded(&mut self, operation: usize, chains: &Bound<'_, PyList>) -> PyResult<()> {
        with_table!(self.state_mut(operation)?, table => table.reserve(chains.len()));
        for chain in chains.iter() {
            self.restore(operation, &chain.cast_into::<PyTuple>()?)?;
        }
        Ok(())
    }

    /// What the bucket of a key was restored from, as long as nothing has touched it.
    pub(super) fn restored_from<'py>(
        &mut self,
        py: Python<'py>,
        operation: usize,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(with_table!(self.state_mut(operation)?, table => {
            table.find(key).and_then(|at| table.at(at).content.stored().map(|states| states.bind(py).clone()))
        }))
    }

    /// Restore one bucket from its chain.
    fn restore(&mut self, operation: usize, chain: &Bound<'_, PyTuple>) -> PyResult<()> {
        let py = chain.py();
        let slot: u16 = chain.get_item(1)?.extract()?;
        let (key, states) =
            (chain.get_item(2)?.cast_into::<PyBytes>()?, chain.get_item(5)?.cast_into::<PyTuple>()?);
        let mut sizes = Vec::with_capacity(states.len());
        for state in states.iter() {
            sizes.push(state.cast::<PyBytes>()?.as_bytes().len());
        }
        let (key, full, behind) = (key.as_bytes(), sizes[0], sizes[1..].iter().sum());
        match self.state_mut(operation)? {
            State::Grouping(state) => {
                let items =
                    decode_items(py, states.get_item(states.len() - 1)?.cast::<PyBytes>()?.as_bytes())?;
                state.table.restored(key, slot, full, behind).items = items;
            }
            State::Reduce(state) => {
                state.kept.table.restored(key, slot, full, behind).restored(states.into_any().unbind())
            }
            State::Folded(state) => {
                state.table.restored(key, slot, full, behind).restored(states.into_any().unbind())
            }
            State::Shards(state) => {
                state.table.restored(key, slot, full, behind).restored(states.into_any().unbind())
            }
            State::Transactions(state) => {
                state.kept.table.restored(key, slot, full, behind).restored(states.into_any().unbind())
            }
        }
        Ok(())
    }

    /// The accumulator of a reduce, or the last items of a grouping, below a live cut; None if there is none.
    pub(super) fn state_below<'py>(
        &mut self,
        py: Python<'py>,
        operation: usize,
        key: &[u8],
        cut: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.state_mut(operation)? {
            State::Grouping(state) => {
                let window = state.window;
                let Some(at) = state.table.find(key) else { return Ok(None) };
                let content = &state.table.at(at).content;
                let end = content.below(cut);
                if end == 0 {
                    return Ok(None);
                }
                let last: Vec<_> = content.items[(end + 1).saturating_sub(window)..end]
                    .iter()
                    .map(|(_, payload)| payload.bind(py))
                    .collect();
                Ok(Some(PyTuple::new(py, last)?.into_any()))
            }
            State::Reduce(state) => state.kept.below(py, key, cut),
            State::Transactions(state) => state.kept.below(py, key, cut),
            State::Folded(state) => {
                let Some(at) = state.table.find(key) else { return Ok(None) };
                let end = state.table.at(at).content.below(cut);
                if end == 0 {
                    Ok(None)
                } else {
                    state.object(py, at, end - 1)
                }
            }
            State::Shards(state) => state.state_at(py, key, cut),
        }
    }
}

fn decode_items(py: Python<'_>, data: &[u8]) -> PyResult<Vec<(Meta, Py<PyAny>)>> {
    let items: Vec<(Bound<'_, PyBytes>, Bound<'_, PyAny>)> = match codec::items(py, data) {
        Ok(items) => items,
        Err(_) => reference::decode_items(py, data)?.extract()?,
    };
    Ok(items
        .into_iter()
        .map(|(meta, payload)| (Meta::from_slice(meta.as_bytes()), payload.unbind()))
        .collect())
}
