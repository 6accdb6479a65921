//! Vertex: what the kernel knows of one, and how its functions are called.
//!
//! Does not: check what a function gives (outcomes.rs), or read a description (description.rs).

use crate::payload::expression::Expression;
use crate::payload::field::Field;
use crate::python::reference;
use crate::state::transactions::Part;
use pyo3::prelude::*;
use std::borrow::Cow;

pub enum Kind {
    Forward,
    Map,
    FlatMap,
    Filter,
    /// Its function is called with the item and the microsecond in which its record arrived.
    Arrival,
    Loop {
        limit: usize,
        too_often: Py<PyAny>,
    },
    Grouping,
    Reduce,
    /// A reduce of ready-made functions.
    Folded,
    Sink,
}

pub struct Vertex {
    pub kind: Kind,
    pub outputs: Vec<usize>,
    pub function: Option<Py<PyAny>>,
    /// The most results, and the most bytes of all of them, that it may make of one item.
    pub max_results: usize,
    pub max_result_bytes: usize,
    pub users: Option<Py<PyAny>>,
    /// The same function without Python, if it is known to be one.
    pub expression: Option<Expression>,
    /// For a flat_map that looks for items of a few classes: what others lead to.
    pub others: Option<Others>,
    /// For a flat_map of transactions' results: which part of them it makes its own.
    pub part: Option<Part>,
    /// Its input is routed, by this place.
    pub routed: bool,
    pub key: Option<Py<PyAny>>,
    pub key_expression: Option<Expression>,
    pub users_key: Py<PyAny>,
    pub balance: Option<Py<PyAny>>,
    pub users_balance: Option<Py<PyAny>>,
    /// Is its state a `Shards`, which knows keys?
    pub sharded: bool,
    /// How a row's key is found without decoding it, if it can be.
    pub row_key: Option<RowKey>,
    /// Called with a list of payloads or a `columns.Batch`, instead of `function` with each:
    /// `answers::Answer` reads what it gives.
    pub batch: Option<Py<PyAny>>,
    /// In which pass items are worked on here (outlook.rs).
    pub pass: u8,
}

impl Vertex {
    /// The result of its function for an item, checked by nobody yet.
    pub fn called<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(value) = self.expression.as_ref().and_then(|expression| expression.of(item)) {
            return Ok(value);
        }
        let function =
            self.function.as_ref().expect("the graph's builder gives every operation its functions");
        function.bind(item.py()).call1((item,))
    }

    /// The same of an encoded item, where that needs no Python.
    pub fn called_with_row<'py>(&self, py: Python<'py>, row: &[u8]) -> Option<Bound<'py, PyAny>> {
        if self.routed || self.batch.is_some() {
            return None;
        }
        self.expression.as_ref()?.of_row(py, row)
    }

    /// The key of an item; itself if it has no function for it.
    pub fn key_of<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Some(function) = &self.key else { return Ok(item.clone()) };
        match self.key_expression.as_ref().and_then(|expression| expression.of(item)) {
            Some(key) => Ok(key),
            None => function.bind(item.py()).call1((item,)),
        }
    }

    /// Does it take an item as it came, encoded?
    pub fn takes_rows(&self) -> bool {
        self.row_key.is_some() && matches!(self.kind, Kind::Folded | Kind::Sink)
    }
}

/// The rule for an item of none of these classes: it leads to itself alone, or to nothing.
pub struct Others {
    pub(super) classes: Vec<usize>,
    pub itself: bool,
}

impl Others {
    pub fn has(&self, item: &Bound<'_, PyAny>) -> bool {
        !self.classes.contains(&(item.get_type_ptr() as usize))
    }
}

pub enum RowKey {
    Whole,
    Field(Field),
    Made(Expression),
}

impl RowKey {
    /// The encoding of the key of `row`; None if Python must find it.
    pub fn of<'a>(&self, py: Python<'_>, row: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self {
            RowKey::Whole => Some(row.into()),
            RowKey::Field(field) => field.of(py, row).map(Cow::from),
            RowKey::Made(key) => reference::encoded(&key.of_row(py, row)?).ok().map(Cow::from),
        }
    }
}
