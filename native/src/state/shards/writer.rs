//! Writer: a version of a shard, or what changed between two, as `model/payloads/state.py` writes a
//! `process.Shard`.

use crate::payload::encoding::{put_array, put_int, put_unsigned};
use crate::python::reference;
use crate::state::shards::shard::{Head, Held, Place, State};
use crate::state::shards::versions::At;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;

const MAP_TAG: u64 = 2;
const SET_TAG: u64 = 3;
/// `state.Whole`, `MapDelta`, `SetDelta` and `MembersDelta`.
const WHOLE: u8 = 0;
const MAP_DELTA: u8 = 2;
const SET_DELTA: u8 = 3;
const MEMBERS_DELTA: u8 = 4;

pub(super) struct Writer<'a, 'py> {
    pub(super) py: Python<'py>,
    /// That of a `process.Shard`.
    pub(super) tag: u32,
    /// `states.delta_state`.
    pub(super) delta_state: &'a Py<PyAny>,
}

impl Writer<'_, '_> {
    pub(super) fn full(&self, at: &At<'_>) -> PyResult<Vec<u8>> {
        let mut out = Vec::new();
        put_array(&mut out, 5);
        put_unsigned(&mut out, u64::from(self.tag));
        put_mark(&mut out, at.head);
        let places = at.places();
        put_array(&mut out, 1 + 2 * places.len());
        put_unsigned(&mut out, MAP_TAG);
        let mut due: BTreeMap<i64, Vec<&Place>> = BTreeMap::new();
        for (place, held) in places {
            out.extend_from_slice(place);
            self.state(&mut out, &held.state)?;
            held.due().into_iter().for_each(|number| due.entry(number).or_default().push(place));
        }
        put_array(&mut out, 1 + 2 * due.len());
        put_unsigned(&mut out, MAP_TAG);
        for (number, places) in in_order(due) {
            out.extend_from_slice(&number);
            put_set(&mut out, &places);
        }
        self.results(&mut out, at.head)?;
        Ok(out)
    }

    /// [4, members, places, changes], as `state.MembersDelta`: of the mark, the states, when they are due,
    /// and the results.
    pub(super) fn delta(&self, old: &At<'_>, new: &At<'_>) -> PyResult<Vec<u8>> {
        let mut out = vec![0x94, MEMBERS_DELTA, 4, 0x94, 0, 1, 2, 3, 0x94];
        out.extend_from_slice(&[0x92, WHOLE]);
        put_mark(&mut out, new.head);
        let mut places: Vec<&Place> = old.others.keys().copied().collect();
        places.retain(|place| !same(old.held(place), new.held(place)));
        places.sort();
        self.states(&mut out, old, new, &places)?;
        due(&mut out, old, new, &places);
        out.extend_from_slice(&[0x92, WHOLE]);
        self.results(&mut out, new.head)?;
        Ok(out)
    }

    fn states(&self, out: &mut Vec<u8>, old: &At<'_>, new: &At<'_>, places: &[&Place]) -> PyResult<()> {
        let stay: Vec<(&Place, &Held)> =
            places.iter().filter_map(|place| Some((*place, new.held(place)?))).collect();
        let gone: Vec<&Place> = places.iter().copied().filter(|place| new.held(place).is_none()).collect();
        put_map_delta(out, old.len(), new.len());
        put_array(out, stay.len());
        stay.iter().for_each(|(place, _)| out.extend_from_slice(place));
        put_array(out, stay.len());
        for (place, held) in stay {
            self.change(out, old.held(place).map(|held| &held.state), &held.state)?;
        }
        put_places(out, &gone);
        Ok(())
    }

    /// As `state._delta_or_whole`.
    fn change(&self, out: &mut Vec<u8>, old: Option<&State>, new: &State) -> PyResult<()> {
        if let (Some(State::Object(old)), State::Object(new)) = (old, new) {
            let change = self.delta_state.bind(self.py).call1((old, new))?;
            if !change.is_none() {
                out.extend_from_slice(change.cast::<PyBytes>()?.as_bytes());
                return Ok(());
            }
        }
        out.extend_from_slice(&[0x92, WHOLE]);
        self.state(out, new)
    }

    fn state(&self, out: &mut Vec<u8>, state: &State) -> PyResult<()> {
        match state {
            State::Count(count) => {
                out.extend_from_slice(&[0x92, 0]);
                put_int(out, *count);
                Ok(())
            }
            State::Object(object) => reference::append(object.bind(self.py), out),
        }
    }

    fn results(&self, out: &mut Vec<u8>, head: &Head) -> PyResult<()> {
        match &head.results {
            None => {
                out.extend_from_slice(&[0x91, 0]);
                Ok(())
            }
            Some(results) => reference::append(results.bind(self.py), out),
        }
    }
}

/// The places by step, of which some come and some go.
fn due(out: &mut Vec<u8>, old: &At<'_>, new: &At<'_>, places: &[&Place]) {
    let mut changed: BTreeMap<i64, (Vec<&Place>, Vec<&Place>)> = BTreeMap::new();
    for place in places {
        let (before, after) =
            (old.held(place).and_then(|held| held.due()), new.held(place).and_then(|held| held.due()));
        if before != after {
            after.into_iter().for_each(|number| changed.entry(number).or_default().0.push(place));
            before.into_iter().for_each(|number| changed.entry(number).or_default().1.push(place));
        }
    }
    let ((old_count, old_steps), (new_count, new_steps)) = (old.due_counts(), new.due_counts());
    let gone: Vec<Vec<u8>> =
        changed.keys().filter(|number| new_count(**number) == 0).map(|number| int(*number)).collect();
    changed.retain(|number, _| new_count(*number) > 0);
    put_map_delta(out, old_steps, new_steps);
    put_array(out, changed.len());
    changed.keys().for_each(|number| put_int(out, *number));
    put_array(out, changed.len());
    for (number, (come, gone)) in &changed {
        if old_count(*number) == 0 {
            out.extend_from_slice(&[0x92, WHOLE]);
            put_set(out, come);
        } else {
            out.extend_from_slice(&[0x95, SET_DELTA]);
            put_unsigned(out, old_count(*number) as u64);
            put_unsigned(out, new_count(*number) as u64);
            put_places(out, come);
            put_places(out, gone);
        }
    }
    put_array(out, gone.len());
    gone.iter().for_each(|number| out.extend_from_slice(number));
}

fn same(one: Option<&Held>, other: Option<&Held>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.state.is(&other.state),
        _ => false,
    }
}

fn int(number: i64) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, number);
    out
}

/// Places by number, in the order of the numbers' encodings: not their own where some are negative.
fn in_order(due: BTreeMap<i64, Vec<&Place>>) -> Vec<(Vec<u8>, Vec<&Place>)> {
    let mut due: Vec<_> = due.into_iter().map(|(number, places)| (int(number), places)).collect();
    due.sort_by(|one, other| one.0.cmp(&other.0));
    due
}

fn put_mark(out: &mut Vec<u8>, head: &Head) {
    match head.mark {
        None => out.push(0xc0),
        Some(mark) => put_int(out, mark),
    }
}

fn put_map_delta(out: &mut Vec<u8>, before: usize, after: usize) {
    out.extend_from_slice(&[0x96, MAP_DELTA]);
    put_unsigned(out, before as u64);
    put_unsigned(out, after as u64);
}

fn put_places(out: &mut Vec<u8>, places: &[&Place]) {
    put_array(out, places.len());
    places.iter().for_each(|place| out.extend_from_slice(place));
}

/// `places` are in order.
fn put_set(out: &mut Vec<u8>, places: &[&Place]) {
    put_array(out, 1 + places.len());
    put_unsigned(out, SET_TAG);
    places.iter().for_each(|place| out.extend_from_slice(place));
}
