//! Inputs: the streams of a program, and the key and time of an item on each.
//!
//! Does not: say what is wrong with an item that has none. Python does.

use crate::payload::encoding;
use crate::payload::event_time::TimeField;
use crate::payload::expression::Expression;
use crate::state::shards::steps::Steps;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// A stream of a program: the key of its items, where it is an expression, and their time, where it is a
/// field.
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

/// Inputs from their descriptions: (name of the key's field or None, its function, (name of the time's field,
/// unit) or None) each.
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
    pub(super) fn key<'py>(&self, side: usize, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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

    pub(super) fn side_of<'py>(&self, payload: &Bound<'py, PyAny>) -> PyResult<(usize, Bound<'py, PyAny>)> {
        if !self.is(payload, self.side) {
            return Ok((0, payload.clone()));
        }
        Ok((self.side_number.of(payload)?.extract()?, self.side_item.of(payload)?))
    }

    pub(super) fn time(&self, side: usize, item: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
        self.inputs[side].time.as_ref().map_or(Ok(None), |field| field.of(item))
    }
}
