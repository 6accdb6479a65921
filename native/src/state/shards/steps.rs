//! Steps: what an item or a mark does to a shard: the mirror of `model/windows/process.py`'s `Steps`.
//!
//! Windows on a grid that count, or sum a field, are done here (panes.rs); so are keys and event times that
//! are fields (inputs.rs). All else is asked of Python.

use crate::payload::attribute::Attribute;
use crate::payload::encoding;
use crate::payload::plans::MAX_DEPTH;
use crate::python::reference;
use crate::state::shards::inputs::{Input, Keyed};
use crate::state::shards::panes::Panes;
use crate::state::shards::shard::{Changed, Held, Place, Shard, State};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::RefCell;

pub struct Steps {
    /// `process.Steps` and its program.
    pub python: Py<PyAny>,
    pub program: Py<PyAny>,
    /// `Steps.answered` and `Steps.called`.
    pub answered: Py<PyAny>,
    pub called: Py<PyAny>,
    /// Is the key the only place?
    pub of_keys: bool,
    /// The key that a function found last: an item's place is asked for just before the item comes.
    pub last: RefCell<Option<Keyed>>,
    pub inputs: Vec<Input>,
    pub panes: Option<Panes>,
    /// Microseconds of a step.
    pub step: i64,
    pub shards: u64,
    /// Classes.
    pub mark: usize,
    pub side: usize,
    pub dated: usize,
    pub late: Py<PyAny>,
    pub now: Py<PyAny>,
    /// Fields of theirs.
    pub mark_time: Attribute,
    pub mark_shard: Attribute,
    pub side_number: Attribute,
    pub side_item: Attribute,
    pub dated_item: Attribute,
    /// The tag of `process.Shard`.
    pub tag: u32,
}

pub(super) type Results<'py> = Vec<Bound<'py, PyAny>>;

impl Steps {
    /// Take a step: a tuple of results, None if there are none. What it changed is in `changed`, also if it
    /// fails.
    pub fn take(
        &self,
        shard: &mut Shard,
        changed: &mut Changed,
        payload: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let results = if self.is(payload, self.mark) {
            self.passed(shard, changed, self.mark_time.of(payload)?.extract()?, payload.py())?
        } else {
            let (side, item) = self.side_of(payload)?;
            self.came(shard, changed, side, &item)?
        };
        if results.is_empty() {
            return Ok(None);
        }
        Ok(Some(PyTuple::new(payload.py(), results)?.into_any().unbind()))
    }

    /// How many of the results of a step are items that came too late.
    pub fn late_among(&self, given: &Bound<'_, PyAny>) -> usize {
        let late = self.late.as_ptr() as usize;
        given.cast::<PyTuple>().map_or(0, |all| all.iter().filter(|result| self.is(result, late)).count())
    }

    pub(super) fn is(&self, payload: &Bound<'_, PyAny>, class: usize) -> bool {
        payload.get_type_ptr() as usize == class
    }

    fn came<'py>(
        &self,
        shard: &mut Shard,
        changed: &mut Changed,
        side: usize,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Results<'py>> {
        let py = item.py();
        let key = match self.key(side, item) {
            Ok(key) => key,
            Err(_) => self.python.bind(py).call_method1("key", (side, item))?,
        };
        let time = match self.time(side, item)? {
            Some(time) => time,
            None => self.python.bind(py).call_method1("time", (side, item, shard.head.mark))?.extract()?,
        };
        let item = &if self.is(item, self.dated) { self.dated_item.of(item)? } else { item.clone() };
        let mut results = Vec::new();
        let in_time = match &self.panes {
            Some(panes) => self.windowed(panes, shard, changed, &key, time, item, &mut results)?,
            None => self.answered(shard, changed, &key, (time, side), item, &mut results)?,
        };
        if !in_time {
            results = vec![self.late.bind(py).call1((item,))?];
        }
        results.iter().try_for_each(|result| checked(result, 2))?;
        Ok(results)
    }

    /// False if the item is late.
    fn answered<'py>(
        &self,
        shard: &mut Shard,
        changed: &mut Changed,
        key: &Bound<'py, PyAny>,
        at: (i64, usize),
        item: &Bound<'py, PyAny>,
        results: &mut Results<'py>,
    ) -> PyResult<bool> {
        let now = self.now.bind(item.py()).call1((at.0, shard.head.mark, at.1))?;
        if self.of_keys {
            self.answered_in(shard, changed, key, item, &now, results)?;
            return Ok(true);
        }
        let mut in_time = false;
        for place in self.program.bind(item.py()).call_method1("places", (key, &now))?.try_iter()? {
            in_time = true;
            self.answered_in(shard, changed, &place?, item, &now, results)?;
        }
        Ok(in_time)
    }

    fn answered_in<'py>(
        &self,
        shard: &mut Shard,
        changed: &mut Changed,
        object: &Bound<'py, PyAny>,
        item: &Bound<'py, PyAny>,
        now: &Bound<'py, PyAny>,
        results: &mut Results<'py>,
    ) -> PyResult<()> {
        let py = item.py();
        let (place, before) = shard.at(reference::encoded(object)?);
        let before = before.map(|held| held.state.object(py)).transpose()?;
        let (after, more, time) = told(self.answered.bind(py).call1((object, before, item, now))?)?;
        extend(results, &more)?;
        self.keep(shard, changed, place, after, time)
    }

    /// `time`: when it is due.
    pub(super) fn keep(
        &self,
        shard: &mut Shard,
        changed: &mut Changed,
        place: Place,
        after: Bound<'_, PyAny>,
        time: Option<i64>,
    ) -> PyResult<()> {
        if !after.is_none() {
            checked(&after, 2)?;
            let state = State::Object(after.unbind());
            shard.put(changed, place, Some(Held::new(state, self.due(time), time)));
        } else if shard.held.contains_key(&place) {
            shard.put(changed, place, None);
        }
        Ok(())
    }

    /// The number of the step in which a time has passed.
    pub(super) fn due(&self, time: Option<i64>) -> Option<i64> {
        // rounded up: the first step that ends at that time or behind it
        time.map(|time| -(-time).div_euclid(self.step))
    }
}

/// (the state after it, results, when that state is due), as Python's steps answer.
pub(super) fn told(answer: Bound<'_, PyAny>) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyAny>, Option<i64>)> {
    answer.extract()
}

pub(super) fn extend<'py>(results: &mut Results<'py>, more: &Bound<'py, PyAny>) -> PyResult<()> {
    if more.cast_exact::<PyTuple>().is_ok_and(|more| more.is_empty()) {
        return Ok(());
    }
    for result in more.try_iter()? {
        results.push(result?);
    }
    Ok(())
}

/// Raise PayloadError unless `value` is a payload `levels` below the accumulator.
pub(super) fn checked(value: &Bound<'_, PyAny>, levels: i32) -> PyResult<()> {
    match encoding::height(value, MAX_DEPTH - levels) {
        Ok(_) => Ok(()),
        Err(_) => {
            let nested = (0..levels)
                .try_fold(value.clone(), |inner, _| PyTuple::new(value.py(), [inner]).map(Bound::into_any))?;
            reference::check(&nested)
        }
    }
}
