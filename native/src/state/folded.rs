//! Folded: a reduce of ready-made functions, over rows. The same results, rows of snapshots and errors as
//! `reduce.rs`, which mirrors
//! `core/dataflow/reduce.py`; only that payloads stay encoded, and that a list's values stand one behind the
//! other in their bucket.
//!
//! An accumulator of a list is how much of that is its own. So all accumulators of a bucket share one piece
//! of memory, in order, and going back cuts it. What a ready-made function cannot do natively Python does,
//! for that item; its accumulator is then an object.

use crate::meta::{Floor, Meta};
use crate::payload::decoding::Reader;
use crate::payload::encoding;
use crate::payload::row::Row;
use crate::payload::vector;
use crate::python::reference::{unmatched, Tools};
use crate::state::keyed::{forget_below, Changed, Content, Dated, Table};
use crate::state::ready::{number, put_known, Combine, Emit, Known};
use crate::state::reduce::{encoded, Fold, LEAST_LIMIT, TRIM_ABOVE};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

pub enum Accumulator {
    Absent,
    Known(Known),
    /// As it was stored: a tuple of a full state and the changes behind it.
    Stored(Py<PyAny>),
    /// What Python made.
    Object(Py<PyAny>),
}

/// What became of an item: its result's encoding, and whether that is an error.
#[derive(Clone)]
pub struct Outcome {
    pub encoded: Box<[u8]>,
    pub error: bool,
}

pub struct Step {
    meta: Meta,
    row: Option<Row>,
    accumulator: Accumulator,
    /// Only of what Python made: else it is made again from the row and the accumulator.
    made: Option<Outcome>,
}

impl Dated for Step {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn is_whole(&self) -> bool {
        self.row.is_some()
    }

    fn forget(&mut self) {
        self.row = None;
        self.made = None;
    }
}

#[derive(Default)]
pub struct Steps {
    pub steps: Vec<Step>,
    values: Vec<u8>,
}

impl Content for Steps {
    fn trim(&mut self, cuts: &[Floor]) {
        forget_below(&mut self.steps, cuts);
    }

    fn roll_back(&mut self, cut: &Floor) -> bool {
        let place = self.below(cut);
        self.steps.truncate(place);
        place > 0
    }

    fn reaches(&self, cut: &Floor) -> bool {
        self.steps.last().is_some_and(|step| step.meta[..] >= cut[..])
    }

    fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Steps {
    pub fn below(&self, limit: &[u8]) -> usize {
        self.steps.partition_point(|step| step.meta[..] < *limit)
    }

    pub fn restored(&mut self, states: Py<PyAny>) {
        self.steps = vec![Step {
            meta: Meta::from_slice(&[0; 8]),
            row: None,
            accumulator: Accumulator::Stored(states),
            made: None,
        }];
    }
}

pub struct Folded {
    pub operation: usize,
    pub table: Table<Steps>,
    pub combine: Combine,
    pub emit: Emit,
    /// The same functions in Python.
    pub fold: Fold,
    /// `reduce.decoded`, and the type of `errors.ErrorValue`.
    pub decoded: Py<PyAny>,
    pub delta_state: Py<PyAny>,
    pub error_type: Py<PyAny>,
}

/// (meta, result, is it a tombstone).
pub type Changes = Vec<(Meta, Outcome, bool)>;

impl Folded {
    /// An item in order writes its result to `out`, or gives what Python made of it; a late one, all that
    /// changed.
    pub fn insert(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        cuts: &[Floor],
        key: &[u8],
        slot: u16,
        meta: &Meta,
        row: Row,
        out: &mut Vec<u8>,
    ) -> PyResult<Option<Changes>> {
        let at = self.table.touched(key, slot);
        let content = &mut self.table.at(at).content;
        let mut newest = content.steps.len();
        if let Some(last) = content.steps.last() {
            if *meta < last.meta {
                let place = content.steps.partition_point(|step| step.meta <= *meta);
                content.steps.insert(
                    place,
                    Step { meta: meta.clone(), row: Some(row), accumulator: Accumulator::Absent, made: None },
                );
                return Ok(Some(self.again(py, tools, at, place, 1)?));
            }
            if newest > TRIM_ABOVE {
                content.trim(cuts);
                newest = content.steps.len();
            }
        }
        let (accumulator, made) = self.stepped(py, tools, at, newest, &row, out)?;
        let given = made.clone();
        self.table.at(at).content.steps.push(Step { meta: meta.clone(), row: Some(row), accumulator, made });
        Ok(given.map(|outcome| vec![(meta.clone(), outcome, false)]))
    }

    /// A tombstone for an item that was inserted before.
    pub fn remove(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        key: &[u8],
        slot: u16,
        meta: &Meta,
        victim: &[u8],
    ) -> PyResult<Changes> {
        let at = self.table.touched(key, slot);
        let steps = &self.table.at(at).content.steps;
        let start = steps.partition_point(|step| step.meta < *meta);
        let end = steps.partition_point(|step| step.meta <= *meta);
        let same = |step: &Step| step.row.as_ref().is_some_and(|row| row.bytes() == victim);
        let Some(place) = (start..end).find(|place| same(&steps[*place])) else {
            return Err(unmatched(py, &format!("operation {}", self.operation), meta));
        };
        let mut changes = vec![(meta.clone(), self.outcome(py, at, place)?, true)];
        let behind = self.outcomes(py, at, place + 1)?;
        self.table.at(at).content.steps.remove(place);
        changes.append(&mut self.refold(py, tools, at, place, behind.into_iter().map(Some).collect())?);
        Ok(changes)
    }

    /// Combine from `start` on; the first `new` of them had no result before.
    fn again(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        at: u32,
        start: usize,
        new: usize,
    ) -> PyResult<Changes> {
        let mut old: Vec<Option<Outcome>> = (0..new).map(|_| None).collect();
        old.extend(self.outcomes(py, at, start + new)?.into_iter().map(Some));
        self.refold(py, tools, at, start, old)
    }

    /// Combine from `start` on, where `old` are the results so far: the tombstones of those that changed,
    /// then what holds now.
    fn refold(
        &mut self,
        py: Python<'_>,
        tools: &Tools,
        at: u32,
        start: usize,
        old: Vec<Option<Outcome>>,
    ) -> PyResult<Changes> {
        let (mut tombstones, mut changes) = (Vec::new(), Vec::new());
        for (place, old) in (start..).zip(old) {
            let row = self.table.at(at).content.steps[place]
                .row
                .clone()
                .expect("what is combined again has its row");
            let mut out = Vec::new();
            let (accumulator, made) = self.stepped(py, tools, at, place, &row, &mut out)?;
            let now = made.clone().unwrap_or_else(|| Outcome { encoded: out.into(), error: false });
            let step = &mut self.table.at(at).content.steps[place];
            (step.accumulator, step.made) = (accumulator, made);
            let meta = step.meta.clone();
            if let Some(old) = old {
                if old.encoded == now.encoded {
                    continue;
                }
                tombstones.push((meta.clone(), old, true));
            }
            changes.push((meta, now, false));
        }
        tombstones.append(&mut changes);
        Ok(tombstones)
    }

    /// The results as they are, from `start` on.
    fn outcomes(&mut self, py: Python<'_>, at: u32, start: usize) -> PyResult<Vec<Outcome>> {
        (start..self.table.at(at).content.steps.len()).map(|place| self.outcome(py, at, place)).collect()
    }

    fn outcome(&mut self, py: Python<'_>, at: u32, place: usize) -> PyResult<Outcome> {
        let Steps { steps, values } = &self.table.at(at).content;
        let step = &steps[place];
        if let Some(made) = &step.made {
            return Ok(made.clone());
        }
        let (Accumulator::Known(known), Some(row)) = (&step.accumulator, &step.row) else {
            unreachable!("Python's results are kept")
        };
        let mut out = Vec::new();
        let done = self.emit.put(py, &mut out, *known, values, row.bytes());
        assert!(done, "what was emitted natively once can be again");
        Ok(Outcome { encoded: out.into(), error: false })
    }

    /// Fold `row` behind the steps before `place`: the accumulator after it; its result in `out`, or as
    /// Python made it.
    fn stepped(
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
    fn unstore(&mut self, py: Python<'_>, at: u32, place: usize) -> PyResult<()> {
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
                crate::payload::row::object_of(py, &state).map(Some)
            }
            Accumulator::Stored(_) => unreachable!("unstored above"),
        }
    }

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
            reader.skip(4 * crate::payload::plans::MAX_DEPTH).ok()?;
        }
        if !reader.at_end() {
            return None;
        }
        values.extend_from_slice(&part.as_bytes()[start..]);
        count += more;
    }
    Some(Known::List { count, end: values.len() })
}
