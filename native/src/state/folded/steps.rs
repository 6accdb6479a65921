//! Steps of a bucket: its items, each with the accumulator after it.

use crate::meta::{Floor, Meta};
use crate::payload::row::Row;
use crate::state::buckets::{forget_below, Content, Dated};
use crate::state::ready::Known;
use pyo3::prelude::*;

pub enum Accumulator {
    Absent,
    Known(Known),
    /// As it was stored: a tuple of a full state and the changes behind it.
    Stored(Py<PyAny>),
    /// An accumulator that Python made.
    Object(Py<PyAny>),
}

/// The outcome of an item: its result's encoding, and whether that is an error.
#[derive(Clone)]
pub struct Outcome {
    pub encoded: Box<[u8]>,
    pub error: bool,
}

pub struct Step {
    pub(super) meta: Meta,
    pub(super) row: Option<Row>,
    pub(super) accumulator: Accumulator,
    /// Only of what Python made: else it is made again from the row and the accumulator.
    pub(super) made: Option<Outcome>,
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
    pub(super) values: Vec<u8>,
}

impl Content for Steps {
    fn below(&self, cut: &[u8]) -> usize {
        self.steps.partition_point(|step| step.meta[..] < *cut)
    }

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

    fn stored(&self) -> Option<&Py<PyAny>> {
        match self.steps.as_slice() {
            [Step { accumulator: Accumulator::Stored(states), .. }] => Some(states),
            _ => None,
        }
    }
}

impl Steps {
    pub fn restored(&mut self, states: Py<PyAny>) {
        self.steps = vec![Step {
            meta: Meta::from_slice(&[0; 8]),
            row: None,
            accumulator: Accumulator::Stored(states),
            made: None,
        }];
    }
}
