//! Steps: what an item or a mark does to a shard: the mirror of `model/windows/process.py`'s `Steps`.
//!
//! Windows on a grid that count, or sum a field, are done here; so are keys and event times that are fields.
//! All else is asked of Python.

use crate::payload::attribute::Attribute;
use crate::payload::decoding::Reader;
use crate::payload::encoding;
use crate::payload::event_time::TimeField;
use crate::payload::expression::Expression;
use crate::payload::plans::{MAX_DEPTH, TUPLE_TAG};
use crate::payload::row::object_of;
use crate::python::reference;
use crate::state::shards::{Changed, Held, Place, Shard, State};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stream of a program: the key of its items, where it is an expression, and their time, where it is a field.
pub struct Input {
    pub key: Option<Expression>,
    /// The key's function.
    pub function: Py<PyAny>,
    pub time: Option<TimeField>,
}

/// The key of an item on its side: one that comes on both sides has a function of its own on each (!).
pub struct Keyed {
    side: usize,
    item: Py<PyAny>,
    key: Py<PyAny>,
}

pub enum Folding {
    Count,
    Total(Attribute),
    Python,
}

/// `panes.Panes` on a grid.
pub struct Panes {
    pub size: i64,
    pub every: i64,
    pub offset: i64,
    pub each: bool,
    pub folding: Folding,
}

pub struct Steps {
    /// `process.Steps` and its program.
    pub python: Py<PyAny>,
    pub program: Py<PyAny>,
    /// `Steps.answered` and `Steps.called`.
    pub answered: Py<PyAny>,
    pub called: Py<PyAny>,
    /// Is the key the only place?
    pub of_keys: bool,
    /// What key was found last by a function: an item's place is asked for just before the item comes.
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

type Results<'py> = Vec<Bound<'py, PyAny>>;

impl Steps {
    /// The shard of an item, if its key is a field or it is a mark; None: Python must find it.
    pub fn shard(&self, payload: &Bound<'_, PyAny>) -> Option<u64> {
        if self.is(payload, self.mark) {
            return self.mark_shard.of(payload).ok()?.extract().ok();
        }
        let (side, item) = self.side_of(payload).ok()?;
        let key = self.key(side, &item).ok()?;
        let mut encoded = Vec::with_capacity(64);
        encoding::put(payload.py(), &mut encoded, &key).ok()?;
        Some((crc32fast::hash(&encoded) as u64 * self.shards) >> 32)
    }

    /// An item's key. Where it fails, Python says so.
    fn key<'py>(&self, side: usize, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = item.py();
        if let Some(key) = self.inputs[side].key.as_ref().and_then(|key| key.of(item)) {
            return Ok(key);
        }
        let known = self.last.take().filter(|last| last.side == side && last.item.is(item));
        let key = match known {
            Some(last) => last.key.into_bound(py),
            None => self.inputs[side].function.bind(py).call1((item,))?,
        };
        self.last.replace(Some(Keyed { side, item: item.clone().unbind(), key: key.clone().unbind() }));
        Ok(key)
    }

    /// One step: a tuple of results, None if there are none. What it changed is in `changed`, also if it
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

    fn is(&self, payload: &Bound<'_, PyAny>, class: usize) -> bool {
        payload.get_type_ptr() as usize == class
    }

    fn side_of<'py>(&self, payload: &Bound<'py, PyAny>) -> PyResult<(usize, Bound<'py, PyAny>)> {
        if !self.is(payload, self.side) {
            return Ok((0, payload.clone()));
        }
        Ok((self.side_number.of(payload)?.extract()?, self.side_item.of(payload)?))
    }

    // --- an item -------------------------------------------------------------------------------------------

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

    fn time(&self, side: usize, item: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
        self.inputs[side].time.as_ref().map_or(Ok(None), |field| field.of(item))
    }

    /// False if the item is late.
    #[allow(clippy::too_many_arguments)]
    fn windowed<'py>(
        &self,
        panes: &Panes,
        shard: &mut Shard,
        changed: &mut Changed,
        key: &Bound<'py, PyAny>,
        time: i64,
        item: &Bound<'py, PyAny>,
        results: &mut Results<'py>,
    ) -> PyResult<bool> {
        let py = item.py();
        let last = time - (time - panes.offset).rem_euclid(panes.every);
        let mut start = last - (last - time + panes.size - 1).div_euclid(panes.every) * panes.every;
        let mut in_time = false;
        while start <= last {
            let end = start + panes.size;
            start += panes.every;
            if shard.head.mark.is_some_and(|mark| end <= mark) {
                continue;
            }
            in_time = true;
            let (place, before) = shard.at(place_of(end, key)?);
            let before = before.map(|held| &held.state);
            let state = match (&panes.folding, before) {
                (Folding::Count, None) => State::Count(1),
                (Folding::Count, Some(State::Count(count))) => State::Count(count + 1),
                (_, before) => State::Object(self.folded(panes, before, item)?.unbind()),
            };
            if panes.each {
                results.push(self.result(py, &place, &state)?);
            }
            shard.put(changed, place, Some(Held::new(state, self.due(Some(end)), None)));
        }
        Ok(in_time)
    }

    /// The accumulator with one more item, in a tuple of its own.
    fn folded<'py>(
        &self,
        panes: &Panes,
        before: Option<&State>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = item.py();
        let before = before.map(|state| state.object(py)).transpose()?;
        if let (Folding::Total(field), Some(before)) = (&panes.folding, &before) {
            if let Some(total) =
                field.of(item).ok().and_then(|value| before.get_item(0).ok()?.add(value).ok())
            {
                let state = PyTuple::new(py, [total])?.into_any();
                checked(&state, 2)?;
                return Ok(state);
            }
        }
        // blames the function for what it raises
        let state = self.program.bind(py).call_method1("folded", (before, item))?;
        checked(&state, 2)?;
        Ok(state)
    }

    /// What a window gives, as it is now.
    fn result<'py>(&self, py: Python<'py>, place: &Place, state: &State) -> PyResult<Bound<'py, PyAny>> {
        let accumulator = state.object(py)?.get_item(0)?;
        self.program.bind(py).call_method1("result", (object_of(py, place)?, accumulator))
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
    fn keep(
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
    fn due(&self, time: Option<i64>) -> Option<i64> {
        time.map(|time| -(-time).div_euclid(self.step))
    }

    // --- a mark --------------------------------------------------------------------------------------------

    fn passed<'py>(
        &self,
        shard: &mut Shard,
        changed: &mut Changed,
        mark: i64,
        py: Python<'py>,
    ) -> PyResult<Results<'py>> {
        let last = mark.div_euclid(self.step);
        let ready: Vec<Place> =
            shard.due.range(..=last).flat_map(|(_, places)| places.iter().cloned()).collect();
        let mut waiting = BinaryHeap::with_capacity(ready.len());
        for place in ready {
            waiting.push(Reverse((self.time_of_place(py, shard, &place)?, place)));
        }
        let mut results = Vec::new();
        while let Some(Reverse((time, place))) = waiting.pop() {
            let state = shard.held[&place].state.object(py)?;
            let answer = self.called.bind(py).call1((object_of(py, &place)?, state, time))?;
            let (after, more, time) = told(answer)?;
            extend(&mut results, &more)?;
            self.keep(shard, changed, place.clone(), after, time)?;
            if let Some(time) = time.filter(|time| self.due(Some(*time)) <= Some(last)) {
                waiting.push(Reverse((time, place)));
            }
        }
        shard.head.mark = Some(mark);
        Ok(results)
    }

    /// When a state is due, exactly.
    fn time_of_place(&self, py: Python<'_>, shard: &Shard, place: &Place) -> PyResult<i64> {
        if self.panes.is_some() {
            return Ok(end_of(place));
        }
        let held = &shard.held[place];
        if let Some(time) = held.time() {
            return Ok(time);
        }
        let state = held.state.object(py)?; // it was restored
        self.program.bind(py).call_method1("due", (object_of(py, place)?, state))?.extract()
    }

    // --- restoring -----------------------------------------------------------------------------------------

    /// A `process.Shard` as it is kept here.
    pub fn restored(&self, stored: &Bound<'_, PyAny>) -> PyResult<Shard> {
        let mut shard = Shard::default();
        shard.head.begun = true;
        shard.head.mark = stored.getattr("mark")?.extract()?;
        let results = stored.getattr("results")?;
        shard.head.results = (results.len()? > 0).then(|| results.unbind());
        let counts = matches!(self.panes, Some(Panes { folding: Folding::Count, .. }));
        for entry in stored.getattr("states")?.call_method0("items")?.try_iter()? {
            let (place, state): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry?.extract()?;
            let count = if counts { state.get_item(0)?.extract().ok() } else { None };
            let state = count.map_or_else(|| State::Object(state.unbind()), State::Count);
            shard.held.insert(reference::encoded(&place)?.into(), Held::new(state, None, None));
        }
        for entry in stored.getattr("due")?.call_method0("items")?.try_iter()? {
            let (number, places): (i64, Bound<'_, PyAny>) = entry?.extract()?;
            for place in places.try_iter()? {
                let (place, _) = shard.at(reference::encoded(&place?)?);
                shard.held.get_mut(&place).expect("what is due has a state").becomes_due(number);
                shard.due.entry(number).or_default().insert(place);
            }
        }
        Ok(shard)
    }
}

/// (the state after it, results, when that state is due), as Python's steps answer.
fn told(answer: Bound<'_, PyAny>) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyAny>, Option<i64>)> {
    answer.extract()
}

fn extend<'py>(results: &mut Results<'py>, more: &Bound<'py, PyAny>) -> PyResult<()> {
    if more.cast_exact::<PyTuple>().is_ok_and(|more| more.is_empty()) {
        return Ok(());
    }
    for result in more.try_iter()? {
        results.push(result?);
    }
    Ok(())
}

/// Raise PayloadError unless `value` is a payload `levels` below the accumulator.
fn checked(value: &Bound<'_, PyAny>, levels: i32) -> PyResult<()> {
    match encoding::height(value, MAX_DEPTH - levels) {
        Ok(_) => Ok(()),
        Err(_) => {
            let nested = (0..levels)
                .try_fold(value.clone(), |inner, _| PyTuple::new(value.py(), [inner]).map(Bound::into_any))?;
            reference::check(&nested)
        }
    }
}

/// The encoding of `(end, key)`.
fn place_of(end: i64, key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut place = Vec::with_capacity(64);
    encoding::put_array(&mut place, 3);
    place.push(TUPLE_TAG as u8);
    encoding::put_int(&mut place, end);
    reference::append(key, &mut place)?;
    Ok(place)
}

/// The end in an encoding of `(end, key)`.
fn end_of(place: &Place) -> i64 {
    let mut reader = Reader::new(&place[2..]);
    reader.integer().unwrap_or_else(|_| unreachable!("a place of a window begins with its end"))
}

/// Of each input (name of the key's field or None, its function, (name of the time's field, unit) or None).
pub fn inputs(described: &Bound<'_, PyAny>) -> PyResult<Vec<Input>> {
    let py = described.py();
    let input = |each: Bound<'_, PyAny>| {
        let each = each.cast_into::<PyTuple>()?;
        let key: Option<Bound<'_, PyAny>> = each.get_item(0)?.extract()?;
        let time: Option<(String, i64)> = each.get_item(2)?.extract()?;
        let time = time.map(|(name, unit)| TimeField::new(py, &name, unit));
        let function = each.get_item(1)?.unbind();
        Ok(Input { key: key.map(|key| Expression::described(&key)).transpose()?, function, time })
    };
    described.cast::<PyList>()?.iter().map(input).collect()
}
