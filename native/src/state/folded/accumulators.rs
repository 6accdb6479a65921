//! Accumulators: one step on, by the kernel or by Python, and what was stored made one to work with.

use crate::payload::decoding::Reader;
use crate::payload::plans::MAX_DEPTH;
use crate::payload::row::{object_of, Row};
use crate::payload::vector;
use crate::python::reference::Tools;
use crate::state::accumulators::encoded;
use crate::state::folded::steps::{Accumulator, Outcome, Steps};
use crate::state::folded::Folded;
use crate::state::ready::{number, put_known, Known};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

impl Folded {
    /// Fold `row` behind the steps before `place`: the accumulator after it; its result in `out`, or as
    /// Python made it.
    pub(super) fn stepped(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        at: u32,
        place: usize,
        row: &Row,
        out: &mut Vec<u8>,
    ) -> PyResult<(Accumulator, Option<Outcome>)> {
        if place > 0 {
            self.unstore(py, at, place - 1)?;
        }
        let Steps { steps, values } = &mut self.table.at(at).content;
        let before = if place > 0 { &steps[place - 1].accumulator } else { &Accumulator::Absent };
        let start = match before {
            Accumulator::Known(known) => Some(Some(*known)),
            Accumulator::Absent => Some(None),
            Accumulator::Object(object) if self.fold.is_nothing(object.bind(py)) => Some(None),
            _ => None,
        };
        let after = start.and_then(|known| self.combine.step(py, values, known, row.bytes()));
        if let Some(after) = after {
            if self.emit.put(py, out, after, values, row.bytes()) {
                return Ok((Accumulator::Known(after), None));
            }
        }
        self.asked(py, tools, at, place, row, after)
    }

    /// As `stepped`, by the functions in Python; `after` if only the result is theirs.
    fn asked(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        at: u32,
        place: usize,
        row: &Row,
        after: Option<Known>,
    ) -> PyResult<(Accumulator, Option<Outcome>)> {
        let before = if place > 0 { self.object(py, at, place - 1)? } else { None };
        let (made, result) = self.fold.step(tools, before.clone(), &row.object(py)?)?;
        let error = result.get_type().as_ptr() == self.error_type.as_ptr();
        let outcome = Some(Outcome { encoded: encoded(&result)?.into(), error });
        let kept = before.is_some_and(|before| before.is(&made));
        let accumulator = match (
            after,
            self.table.at(at).content.steps.get(place.wrapping_sub(1)).map(|step| &step.accumulator),
        ) {
            (Some(after), _) => Accumulator::Known(after),
            (None, Some(Accumulator::Known(known))) if kept => Accumulator::Known(*known),
            _ => Accumulator::Object(made.unbind()),
        };
        Ok((accumulator, outcome))
    }

    /// Make a stored accumulator one to work with.
    pub(super) fn unstore(&mut self, py: Python<'_>, at: u32, place: usize) -> PyResult<()> {
        let Accumulator::Stored(stored) = &self.table.at(at).content.steps[place].accumulator else {
            return Ok(());
        };
        let stored = stored.clone_ref(py).into_bound(py);
        let parts = stored.cast::<PyTuple>().map_err(PyErr::from)?;
        let content = &mut self.table.at(at).content;
        let accumulator = match known(parts, &mut content.values) {
            Some(known) => Accumulator::Known(known),
            None => Accumulator::Object(self.decoded.bind(py).call1((parts,))?.unbind()),
        };
        self.table.at(at).content.steps[place].accumulator = accumulator;
        Ok(())
    }

    /// The accumulator as Python has it; None before the first.
    pub fn object<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        place: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.unstore(py, at, place)?;
        let Steps { steps, values } = &self.table.at(at).content;
        match &steps[place].accumulator {
            Accumulator::Absent => Ok(None),
            Accumulator::Object(object) => Ok(Some(object.bind(py).clone())),
            Accumulator::Known(known) => {
                let mut state = Vec::new();
                put_known(&mut state, *known, values);
                object_of(py, &state).map(Some)
            }
            Accumulator::Stored(_) => unreachable!("unstored above"),
        }
    }
}

/// The accumulator of a full state and deltas that all append, with its values in `values`; None for whatever
/// is not that.
fn known(parts: &Bound<'_, PyTuple>, values: &mut Vec<u8>) -> Option<Known> {
    let first = parts.get_item(0).ok()?;
    let first = first.cast::<PyBytes>().ok()?.as_bytes();
    if parts.len() == 1 {
        if let Some(number) = number(first) {
            return (!matches!(first[0], 0xc2 | 0xc3)).then_some(number);
        }
    }
    // only the oldest accumulator of a bucket is ever a stored one, so no other has values here yet
    values.clear();
    let mut count = 0;
    for (place, part) in parts.iter().enumerate() {
        let part = part.cast_into::<PyBytes>().ok()?;
        let mut reader = Reader::new(part.as_bytes());
        let more =
            if place == 0 { vector::whole(&mut reader) } else { vector::appending(&mut reader, count) }
                .ok()?;
        let start = reader.at();
        for _ in 0..more {
            reader.skip(4 * MAX_DEPTH).ok()?;
        }
        if !reader.at_end() {
            return None;
        }
        values.extend_from_slice(&part.as_bytes()[start..]);
        count += more;
    }
    Some(Known::List { count, end: values.len() })
}
