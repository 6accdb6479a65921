//! Entries of a bucket: its items, each with its result and the accumulator after it.

use crate::meta::{Floor, Meta};
use crate::state::buckets::{forget_below, Content, Dated};
use pyo3::prelude::*;

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
}

impl Content for Entries {
    fn below(&self, cut: &[u8]) -> usize {
        self.0.partition_point(|entry| entry.meta[..] < *cut)
    }

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

    fn stored(&self) -> Option<&Py<PyAny>> {
        match self.0.as_slice() {
            [Entry { accumulator: Accumulator::Stored(states), .. }] => Some(states),
            _ => None,
        }
    }
}
