//! Grouping: the mirror of `core/dataflow/grouping.py`.

use crate::meta::{Floor, Meta};
use crate::payload::encoding;
use crate::python::reference::{refused, unmatched};
use crate::state::accumulators::Changes;
use crate::state::buckets::{Changed, Content};
use crate::state::keyed::Table;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

const TRIM_ABOVE: usize = 16;

/// The items of a key, ascending. `need` of them stay below each live cut.
#[derive(Default)]
pub struct Items {
    pub items: Vec<(Meta, Py<PyAny>)>,
    pub need: usize,
}

impl Content for Items {
    fn below(&self, cut: &[u8]) -> usize {
        self.items.partition_point(|(meta, _)| meta[..] < *cut)
    }

    fn trim(&mut self, cuts: &[Floor]) {
        let mut kept = vec![false; self.items.len()];
        for cut in cuts {
            let count = self.below(cut);
            kept[count.saturating_sub(self.need)..count].fill(true);
        }
        kept[self.below(cuts.last().expect("there is always a committed cut"))..].fill(true);
        let mut place = 0;
        self.items.retain(|_| {
            place += 1;
            kept[place - 1]
        });
    }

    fn roll_back(&mut self, cut: &Floor) -> bool {
        let place = self.below(cut);
        self.items.truncate(place);
        place > 0
    }

    fn reaches(&self, cut: &Floor) -> bool {
        self.items.last().is_some_and(|(meta, _)| meta[..] >= cut[..])
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

pub struct Grouping {
    pub operation: usize,
    pub table: Table<Items>,
    pub window: usize,
}

impl Grouping {
    fn touched(&mut self, key: &[u8], slot: u16) -> &mut Items {
        let need = self.window - 1;
        let at = self.table.touched(key, slot);
        let content = &mut self.table.at(at).content;
        content.need = need;
        content
    }

    /// An item: the windows to invalidate and the windows that hold now, in that order.
    pub fn insert<'py>(
        &mut self,
        cuts: &[Floor],
        key: &[u8],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Changes<'py>> {
        let (py, window) = (payload.py(), self.window);
        let content = self.touched(key, slot);
        if content.items.len() > TRIM_ABOVE + window {
            content.trim(cuts);
        }
        let place = content.items.partition_point(|(other, _)| other <= meta);
        let mut changes = windows(py, content, window, place, place + window - 1, true)?;
        content.items.insert(place, (meta.clone(), payload.clone().unbind()));
        changes.append(&mut windows(py, content, window, place, place + window, false)?);
        Ok(changes)
    }

    /// A tombstone for an item that was inserted before.
    pub fn remove<'py>(
        &mut self,
        key: &[u8],
        slot: u16,
        meta: &Meta,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Changes<'py>> {
        let (py, window, operation) = (payload.py(), self.window, self.operation);
        let victim = encoded(payload)?;
        let content = self.touched(key, slot);
        let (start, end) = (
            content.items.partition_point(|(other, _)| other < meta),
            content.items.partition_point(|(other, _)| other <= meta),
        );
        for place in start..end {
            if encoded(content.items[place].1.bind(py))? == victim {
                let mut changes = windows(py, content, window, place, place + window, true)?;
                content.items.remove(place);
                changes.append(&mut windows(py, content, window, place, place + window - 1, false)?);
                return Ok(changes);
            }
        }
        Err(unmatched(py, &format!("operation {operation}"), meta))
    }

    /// The row of a bucket: the last items below the cut, in full; None if nothing has changed.
    pub fn row<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        committed: &Floor,
        cut: &Floor,
    ) -> PyResult<Option<Changed<'py>>> {
        let need = self.window - 1;
        let Some((_, end)) = self.table.between(at, committed, cut).filter(|_| need > 0) else {
            return Ok(None);
        };
        let bucket = self.table.at(at);
        let kept = &bucket.content.items[end.saturating_sub(need)..end];
        let mut state = Vec::new();
        encoding::put_array(&mut state, kept.len());
        for (meta, payload) in kept {
            encoding::put_array(&mut state, 2);
            encoding::put_bytes(&mut state, meta);
            let payload = payload.bind(py);
            encoding::put(py, &mut state, payload).or_else(|_| refused(payload, &mut state))?;
        }
        Ok(Some(self.table.row(py, at, true, PyBytes::new(py, &state))))
    }
}

fn windows<'py>(
    py: Python<'py>,
    content: &Items,
    window: usize,
    start: usize,
    end: usize,
    tombstones: bool,
) -> PyResult<Changes<'py>> {
    let items = &content.items;
    let mut made = Vec::new();
    for place in start..end.min(items.len()) {
        let parts =
            items[(place + 1).saturating_sub(window)..=place].iter().map(|(_, payload)| payload.bind(py));
        let parts: Vec<_> = parts.collect();
        made.push((items[place].0.clone(), PyTuple::new(py, parts)?.into_any(), tombstones));
    }
    Ok(made)
}

fn encoded(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    encoding::put(value.py(), &mut out, value).or_else(|_| refused(value, &mut out))?;
    Ok(out)
}
