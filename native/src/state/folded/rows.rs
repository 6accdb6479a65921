//! Rows of snapshots: a bucket's state at a live cut, or what changed of it between two.

use crate::meta::Floor;
use crate::payload::encoding;
use crate::state::buckets::Changed;
use crate::state::folded::steps::{Accumulator, Steps};
use crate::state::folded::Folded;
use crate::state::ready::{put_known, Known};
use crate::state::reduce::{encoded, LEAST_LIMIT};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Folded {
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
        let content = &self.table.at(at).content;
        let (before, newest) = (content.below(committed), content.below(cut));
        if newest == before {
            return Ok(None);
        }
        if before > 0 && self.table.at(at).full > 0 {
            if let Some(change) = self.change(py, at, before - 1, newest - 1)? {
                let bucket = self.table.at(at);
                if bucket.takes(change.len()) {
                    return Ok(Some(bucket.row(py, false, PyBytes::new(py, &change))));
                }
            }
        }
        let state = PyBytes::new(py, &self.state(py, at, newest - 1)?);
        Ok(Some(self.table.at(at).row(py, true, state)))
    }

    fn state(&mut self, py: Python<'_>, at: u32, place: usize) -> PyResult<Vec<u8>> {
        let Steps { steps, values } = &self.table.at(at).content;
        if let Accumulator::Known(known) = &steps[place].accumulator {
            let mut state = Vec::new();
            put_known(&mut state, *known, values);
            return Ok(state);
        }
        encoded(&self.object(py, at, place)?.expect("an entry below minimal time has its accumulator"))
    }

    /// As `state.delta_state` writes it.
    fn change(&mut self, py: Python<'_>, at: u32, old: usize, new: usize) -> PyResult<Option<Vec<u8>>> {
        self.unstore(py, at, old)?;
        let Steps { steps, values } = &self.table.at(at).content;
        match (&steps[old].accumulator, &steps[new].accumulator) {
            (
                Accumulator::Known(Known::List { count: before, end: start }),
                Accumulator::Known(Known::List { count: after, end }),
            ) => Ok((after - before <= LEAST_LIMIT.max(after / 2))
                .then(|| appended(*before, *after, &values[*start..*end]))),
            (Accumulator::Known(_), Accumulator::Known(_)) => Ok(None),
            _ => {
                let (Some(one), Some(other)) = (self.object(py, at, old)?, self.object(py, at, new)?) else {
                    return Ok(None);
                };
                let change = self.delta_state.bind(py).call1((one, other))?;
                if change.is_none() {
                    Ok(None)
                } else {
                    Ok(Some(change.extract()?))
                }
            }
        }
    }
}

/// [1, before, size, [], [], [values...]].
fn appended(before: usize, after: usize, values: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() + 24);
    out.extend_from_slice(&[0x96, 1]);
    encoding::put_unsigned(&mut out, before as u64);
    encoding::put_unsigned(&mut out, after as u64);
    out.extend_from_slice(&[0x90, 0x90]);
    encoding::put_array(&mut out, after - before);
    out.extend_from_slice(values);
    out
}
