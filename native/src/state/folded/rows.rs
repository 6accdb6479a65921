//! Rows of snapshots: a bucket's state at a live cut, or what changed of it between two.

use crate::payload::encoding;
use crate::state::accumulators::{encoded, python_delta, LEAST_LIMIT};
use crate::state::folded::steps::{Accumulator, Steps};
use crate::state::folded::Folded;
use crate::state::keyed::Table;
use crate::state::ready::{put_known, Known};
use crate::state::rows::Rows;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Rows for Folded {
    type Content = Steps;

    fn table(&mut self) -> &mut Table<Steps> {
        &mut self.table
    }

    fn change<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        before: usize,
        newest: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (old, new) = (before - 1, newest - 1);
        self.unstore(py, at, old)?;
        let Steps { steps, values } = &self.table.at(at).content;
        match (&steps[old].accumulator, &steps[new].accumulator) {
            (
                Accumulator::Known(Known::List { count: before, end: start }),
                Accumulator::Known(Known::List { count: after, end }),
            ) => Ok((after - before <= LEAST_LIMIT.max(after / 2))
                .then(|| PyBytes::new(py, &appended(*before, *after, &values[*start..*end])))),
            (Accumulator::Known(_), Accumulator::Known(_)) => Ok(None),
            _ => {
                let (Some(one), Some(other)) = (self.object(py, at, old)?, self.object(py, at, new)?) else {
                    return Ok(None);
                };
                python_delta(&self.delta_state, &one, &other)
            }
        }
    }

    fn full(&mut self, py: Python<'_>, at: u32, newest: usize) -> PyResult<Vec<u8>> {
        let place = newest - 1;
        let Steps { steps, values } = &self.table.at(at).content;
        if let Accumulator::Known(known) = &steps[place].accumulator {
            let mut state = Vec::new();
            put_known(&mut state, *known, values);
            return Ok(state);
        }
        encoded(&self.object(py, at, place)?.expect("an entry below minimal time has its accumulator"))
    }
}

/// The delta of a list that only grew: [1, before, size, [], [], [values...]].
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
