//! Reduce: the mirror of `core/dataflow/reduce.py`.

use crate::meta::{Floor, Meta};
use crate::payload::encoding;
use crate::payload::plans::MAX_DEPTH;
use crate::payload::vector;
use crate::python::reference::{refused, unmatched, Tools};
use crate::state::keyed::{forget_below, Changed, Content, Dated, Table};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

pub const TRIM_ABOVE: usize = 32;
/// Appended values up to which a delta is always worth it (`state.LEAST_LIMIT`).
pub const LEAST_LIMIT: usize = 64;

pub enum Accumulator {
    Absent,
    Value(Py<PyAny>),
    /// As it was stored: a tuple of a full state and the changes behind it.
    Stored(Py<PyAny>),
}

pub struct Entry {
    pub meta: Meta,
    pub payload: Option<Py<PyAny>>,
    pub accumulator: Accumulator,
    pub result: Option<Py<PyAny>>,
}

impl Dated for Entry {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn is_whole(&self) -> bool {
        self.payload.is_some()
    }

    fn forget(&mut self) {
        self.payload = None;
        self.result = None;
    }
}

#[derive(Default)]
pub struct Entries(pub Vec<Entry>);

impl Entries {
    pub fn restored(&mut self, states: Py<PyAny>) {
        self.0 = vec![Entry {
            meta: Meta::from_slice(&[0; 8]),
            payload: None,
            accumulator: Accumulator::Stored(states),
            result: None,
        }];
    }

    fn below(&self, limit: &[u8]) -> usize {
        self.0.partition_point(|entry| entry.meta[..] < *limit)
    }
}

impl Content for Entries {
    fn trim(&mut self, cuts: &[Floor]) {
        forget_below(&mut self.0, cuts);
    }

    fn roll_back(&mut self, cut: &Floor) -> bool {
        let place = self.below(cut);
        self.0.truncate(place);
        place > 0
    }

    fn reaches(&self, cut: &Floor) -> bool {
        self.0.last().is_some_and(|entry| entry.meta[..] >= cut[..])
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The functions of one reduce.
pub struct Fold {
    pub initial: Py<PyAny>,
    pub combine: Py<PyAny>,
    pub emit: Option<Py<PyAny>>,
    /// What messages name; in debug mode the callables above are wrapped.
    pub users_initial: Py<PyAny>,
    pub users_combine: Py<PyAny>,
    pub users_emit: Option<Py<PyAny>>,
    /// `user_code.NOTHING`, and collections, which check themselves.
    pub nothing: Py<PyAny>,
    pub self_checked: Vec<usize>,
}

type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Fold {
    /// Has nothing been combined for the key yet?
    pub fn is_nothing(&self, accumulator: &Bound<'_, PyAny>) -> bool {
        accumulator.get_type().is(self.nothing.bind(accumulator.py()).get_type())
    }

    /// One step: the accumulator after it and its result, either of which may be what an error left or
    /// became.
    pub fn step<'py>(
        &self,
        tools: &Tools,
        before: Option<Bound<'py, PyAny>>,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Pair<'py>> {
        let py = payload.py();
        let nothing = self.nothing.bind(py);
        let (before, kept) = match before {
            Some(before) if !self.is_nothing(&before) => (before.clone(), before),
            _ => match self.initial.bind(py).call0() {
                Ok(made) => (made, nothing.clone()),
                Err(error) => {
                    return Ok((nothing.clone(), tools.error_of(&self.users_initial, error, payload)?))
                }
            },
        };
        let after = match self.combine.bind(py).call1((before, payload)) {
            Ok(after) => after,
            Err(error) => return Ok((kept, tools.error_of(&self.users_combine, error, payload)?)),
        };
        if !self.self_checked.contains(&(after.get_type().as_ptr() as usize)) {
            if let Err(error) = tools.check(&after) {
                return Ok((kept, tools.error_of(&self.users_combine, error, payload)?));
            }
        }
        let (Some(emit), Some(users_emit)) = (&self.emit, &self.users_emit) else {
            return Ok((after.clone(), after));
        };
        let result = match emit.bind(py).call1((&after, payload)) {
            Ok(result) => match tools.check(&result) {
                Ok(()) => result,
                Err(error) => tools.error_of(users_emit, error, payload)?,
            },
            Err(error) => tools.error_of(users_emit, error, payload)?,
        };
        Ok((after, result))
    }
}

pub struct Reduce {
    pub operation: usize,
    pub table: Table<Entries>,
    pub fold: Fold,
    /// `reduce._decoded`: tuple of stored bytes -> accumulator.
    pub decoded: Py<PyAny>,
    /// `states.delta_state` and `states.encode_state`.
    pub delta_state: Py<PyAny>,
}

/// (meta, result, is it a tombstone).
pub type Changes<'py> = Vec<(Meta, Bound<'py, PyAny>, bool)>;

pub fn encoded(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    encoding::put(value.py(), &mut out, value).or_else(|_| refused(value, &mut out))?;
    Ok(out)
}

impl Reduce {
    pub fn accumulator<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        place: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = &mut self.table.at(at).content.0[place];
        match &entry.accumulator {
            Accumulator::Absent => Ok(None),
            Accumulator::Value(value) => Ok(Some(value.bind(py).clone())),
            Accumulator::Stored(stored) => {
                let value = match stored.bind(py).cast::<PyTuple>().ok().and_then(vector::restored) {
                    Some(value) => value,
                    None => self.decoded.bind(py).call1((stored,))?,
                };
                entry.accumulator = Accumulator::Value(value.clone().unbind());
                Ok(Some(value))
            }
        }
    }

    /// An item in order gives its result; a late one, all results to invalidate and those that hold now.
    pub fn insert<'py>(
        &mut self,
        tools: &Tools,
        cuts: &[Floor],
        key: &[u8],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Result<Bound<'py, PyAny>, Changes<'py>>> {
        let py = payload.py();
        let at = self.table.touched(key, slot);
        let entries = &mut self.table.at(at).content;
        let mut before = None;
        if let Some(last) = entries.0.last() {
            if *meta < last.meta {
                let place = entries.0.partition_point(|entry| entry.meta <= *meta);
                entries.0.insert(
                    place,
                    Entry {
                        meta: meta.clone(),
                        payload: Some(payload.clone().unbind()),
                        accumulator: Accumulator::Absent,
                        result: None,
                    },
                );
                return Ok(Err(self.again(tools, py, at, place, 1)?));
            }
            if entries.0.len() > TRIM_ABOVE {
                entries.trim(cuts);
            }
            let newest = entries.0.len() - 1;
            before = self.accumulator(py, at, newest)?;
        }
        let (after, result) = self.fold.step(tools, before, payload)?;
        self.table.at(at).content.0.push(Entry {
            meta: meta.clone(),
            payload: Some(payload.clone().unbind()),
            accumulator: Accumulator::Value(after.unbind()),
            result: Some(result.clone().unbind()),
        });
        Ok(Ok(result))
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
        let at = self.table.touched(key, slot);
        let victim = encoded(payload)?;
        let entries = &mut self.table.at(at).content.0;
        let start = entries.partition_point(|entry| entry.meta < *meta);
        let end = entries.partition_point(|entry| entry.meta <= *meta);
        for place in start..end {
            let same = match &entries[place].payload {
                Some(other) => encoded(other.bind(py))? == victim,
                None => false,
            };
            if same {
                let gone = entries.remove(place);
                let result = gone.result.expect("an item above minimal time has a result").into_bound(py);
                let mut changes = vec![(gone.meta, result, true)];
                changes.append(&mut self.again(tools, py, at, place, 0)?);
                return Ok(changes);
            }
        }
        Err(unmatched(py, &format!("operation {}", self.operation), meta))
    }

    /// Combine from `start` on; the first `new` of them had no result before.
    fn again<'py>(
        &mut self,
        tools: &Tools,
        py: Python<'py>,
        at: u32,
        start: usize,
        new: usize,
    ) -> PyResult<Changes<'py>> {
        let mut tombstones = Vec::new();
        let mut changes = Vec::new();
        let mut before = if start > 0 { self.accumulator(py, at, start - 1)? } else { None };
        for place in start..self.table.at(at).content.0.len() {
            let payload = self.table.at(at).content.0[place]
                .payload
                .as_ref()
                .expect("what is combined again has its payload")
                .bind(py)
                .clone();
            let given = if place == 0 { None } else { before };
            let (after, result) = self.fold.step(tools, given, &payload)?;
            let entry = &mut self.table.at(at).content.0[place];
            before = Some(after.clone());
            entry.accumulator = Accumulator::Value(after.unbind());
            let old = entry.result.replace(result.clone().unbind());
            let meta = entry.meta.clone();
            if place >= start + new {
                let old = old.expect("only new items lack a result").into_bound(py);
                if encoded(&old)? == encoded(&result)? {
                    continue;
                }
                tombstones.push((meta.clone(), old, true));
            }
            changes.push((meta, result, false));
        }
        tombstones.append(&mut changes);
        Ok(tombstones)
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
        let accumulator =
            self.accumulator(py, at, newest - 1)?.expect("an entry below minimal time has its accumulator");
        if before > 0 && self.table.at(at).full > 0 {
            let old = self
                .accumulator(py, at, before - 1)?
                .expect("an entry below minimal time has its accumulator");
            if let Some(change) = self.change(&old, &accumulator)? {
                let bucket = self.table.at(at);
                if bucket.takes(change.as_bytes().len()) {
                    return Ok(Some(bucket.row(py, false, change)));
                }
            }
        }
        let state = PyBytes::new(py, &encoded(&accumulator)?);
        Ok(Some(self.table.at(at).row(py, true, state)))
    }

    fn change<'py>(
        &self,
        old: &Bound<'py, PyAny>,
        new: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if let Some(change) = appended(old, new) {
            return Ok(Some(PyBytes::new(old.py(), &change)));
        }
        let change = self.delta_state.bind(old.py()).call1((old, new))?;
        if change.is_none() {
            Ok(None)
        } else {
            Ok(Some(change.cast_into()?))
        }
    }
}

/// The delta of an accumulator, where the kernel knows it. Raises nothing.
#[pyfunction]
pub fn delta<'py>(old: &Bound<'py, PyAny>, new: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    appended(old, new).map(|change| PyBytes::new(old.py(), &change))
}

/// The delta of a Vector that only grew, as `state.delta_state` writes it: [1, before, size, [], [],
/// [values...]].
fn appended(old: &Bound<'_, PyAny>, new: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    let (py, old, new) = (old.py(), old.as_ptr(), new.as_ptr());
    if !vector::is_vector(old) || !vector::is_vector(new) {
        return None;
    }
    // SAFETY: both are Vectors, and alive.
    unsafe {
        let (before, after) = (vector::size(old).ok()?, vector::size(new).ok()?);
        if !vector::grew(old, new).ok()? || after - before > LEAST_LIMIT {
            return None;
        }
        let mut out = vec![0x96, 1];
        encoding::put_unsigned(&mut out, before as u64);
        encoding::put_unsigned(&mut out, after as u64);
        out.extend_from_slice(&[0x90, 0x90]);
        encoding::put_array(&mut out, after - before);
        vector::values_from(new, before, &mut |value| {
            encoding::put_object(py, &mut out, value, MAX_DEPTH - 1)
        })
        .ok()?;
        Some(out)
    }
}
