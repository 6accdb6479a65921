//! Panes: windows on a grid, each a place of its own: its end and the key.

use crate::payload::attribute::Attribute;
use crate::payload::decoding::Reader;
use crate::payload::encoding;
use crate::payload::plans::TUPLE_TAG;
use crate::payload::row::object_of;
use crate::python::reference;
use crate::state::shards::shard::{Changed, Held, Place, Shard, State};
use crate::state::shards::steps::{checked, Results, Steps};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

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

impl Steps {
    /// False if the item is late.
    pub(super) fn windowed<'py>(
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
        // the starts of the first pane that ends behind `time`, and of the last that has begun by then
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

    /// The result of a window, as it is now.
    fn result<'py>(&self, py: Python<'py>, place: &Place, state: &State) -> PyResult<Bound<'py, PyAny>> {
        let accumulator = state.object(py)?.get_item(0)?;
        self.program.bind(py).call_method1("result", (object_of(py, place)?, accumulator))
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
pub(super) fn end_of(place: &Place) -> i64 {
    let mut reader = Reader::new(&place[2..]); // behind the header and the tag of a tuple
    reader.integer().unwrap_or_else(|_| unreachable!("a place of a window begins with its end"))
}
