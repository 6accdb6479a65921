//! Entries of a bucket: its items, each with the accumulator after it.

use crate::meta::{Floor, Meta};
use crate::payload::vector;
use crate::state::buckets::{forget_below, Content, Dated};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub enum Accumulator {
    Absent,
    /// The key was deleted.
    Deleted,
    Value(Py<PyAny>),
    /// As it was stored: a tuple of a full state and the changes behind it.
    Stored(Py<PyAny>),
}

pub struct Entry<T> {
    pub meta: Meta,
    /// None below minimal time.
    pub item: Option<T>,
    pub accumulator: Accumulator,
}

impl<T> Dated for Entry<T> {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn is_whole(&self) -> bool {
        self.item.is_some()
    }

    fn forget(&mut self) {
        self.item = None;
    }
}

pub struct Entries<T>(pub Vec<Entry<T>>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

impl<T> Entries<T> {
    pub fn restored(&mut self, states: Py<PyAny>) {
        self.0 = vec![Entry {
            meta: Meta::from_slice(&[0; 8]),
            item: None,
            accumulator: Accumulator::Stored(states),
        }];
    }

    /// Is a key that has so many of its items deleted?
    pub fn is_deleted(&self, count: usize) -> bool {
        count > 0 && matches!(self.0[count - 1].accumulator, Accumulator::Deleted)
    }

    /// The accumulator at a place, None if it has none yet. One that was stored is made by `decoded`.
    pub fn accumulator<'py>(
        &mut self,
        py: Python<'py>,
        decoded: &Py<PyAny>,
        place: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = &mut self.0[place];
        match &entry.accumulator {
            Accumulator::Absent | Accumulator::Deleted => Ok(None),
            Accumulator::Value(value) => Ok(Some(value.bind(py).clone())),
            Accumulator::Stored(stored) => {
                let value = match stored.bind(py).cast::<PyTuple>().ok().and_then(vector::restored) {
                    Some(value) => value,
                    None => decoded.bind(py).call1((stored,))?,
                };
                entry.accumulator = Accumulator::Value(value.clone().unbind());
                Ok(Some(value))
            }
        }
    }
}

impl<T> Content for Entries<T> {
    fn below(&self, cut: &[u8]) -> usize {
        self.0.partition_point(|entry| entry.meta[..] < *cut)
    }

    fn trim(&mut self, cuts: &[Floor]) {
        forget_below(&mut self.0, cuts);
        // that it was deleted need not be known where nothing is below that
        let final_count = cuts.last().map_or(0, |cut| self.below(cut));
        let gone = (0..final_count).take_while(|place| self.is_deleted(place + 1)).count();
        self.0.drain(..gone);
    }

    fn roll_back(&mut self, cut: &Floor) -> bool {
        let place = self.below(cut);
        self.0.truncate(place);
        place > 0 && !self.is_deleted(place)
    }

    fn reaches(&self, cut: &Floor) -> bool {
        self.0.last().is_some_and(|entry| entry.meta[..] >= cut[..])
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn stored(&self) -> Option<&Py<PyAny>> {
        match self.0.as_slice() {
            [Entry { accumulator: Accumulator::Stored(states), .. }] => Some(states),
            _ => None,
        }
    }
}
