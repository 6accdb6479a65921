//! The dataflow's way for rows: as in entrances.rs, changes.rs and operations.rs, without an object where
//! none is needed. Whatever is not known here takes the other way.

use crate::flow::items::{Key, Payload, Work};
use crate::flow::outcomes::Outcome;
use crate::flow::places::Placed;
use crate::flow::states::State;
use crate::flow::vertex::Kind;
use crate::flow::Flow;
use crate::meta::{child, Meta};
use crate::payload::row::{object_of, Row};
use crate::python::reference;
use crate::state::folded::{self, Changes};
use pyo3::prelude::*;

impl Flow {
    /// Along all edges out of `vertex`. `owned`: the row that `bytes` are of, if there is one.
    fn row_forward(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        meta: Meta,
        bytes: &[u8],
        owned: Option<&Row>,
        tombstone: bool,
    ) -> PyResult<()> {
        self.led_on[vertex] += 1;
        let count = self.vertices[vertex].outputs.len();
        if count == 1 {
            let output = self.vertices[vertex].outputs[0];
            return self.row_enters(py, output, meta, bytes, owned, tombstone);
        }
        for edge in 0..count {
            let output = self.vertices[vertex].outputs[edge];
            self.row_enters(py, output, child(&meta, edge), bytes, owned, tombstone)?;
        }
        Ok(())
    }

    /// A row enters `vertex`, wherever its slot lives.
    pub(super) fn row_enters(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        meta: Meta,
        bytes: &[u8],
        owned: Option<&Row>,
        tombstone: bool,
    ) -> PyResult<()> {
        let row = || owned.cloned().unwrap_or_else(|| Row::copied(bytes));
        let this = &self.vertices[vertex];
        if this.pass > self.pass {
            self.put_off(vertex, meta, Payload::Row(row()), tombstone);
            return Ok(());
        }
        if matches!(this.kind, Kind::Forward) && !this.routed {
            return self.row_forward(py, vertex, meta, bytes, owned, tombstone);
        }
        if this.routed && self.rows.is_some() {
            return self.row_at_door(py, vertex, meta, bytes);
        }
        if !this.takes_rows() {
            if let Some(made) = this.called_with_row(py, bytes) {
                return self.row_applied(py, vertex, meta, bytes, owned, made, tombstone);
            }
            return self.enter(vertex, meta, object_of(py, bytes)?, tombstone);
        }
        let (key, slot) = match self.row_place(py, vertex, bytes)? {
            Ok(place) => place,
            Err(error) => return self.failed_at_door(vertex, &meta, error, tombstone),
        };
        let owner = self.owner(vertex, slot);
        if owner != self.me {
            self.send_encoded(owner, vertex, &meta, bytes, tombstone);
        } else if self.others_first {
            self.waiting.push(Work {
                meta,
                cause: self.cause,
                vertex,
                payload: Payload::Row(row()),
                tombstone,
                place: Some((key, slot)),
            });
        } else if matches!(self.vertices[vertex].kind, Kind::Sink) {
            return self.row_sinks(py, vertex, slot, meta, bytes, tombstone);
        } else {
            return self.row_folds(py, vertex, &key, slot, meta, row(), tombstone);
        }
        Ok(())
    }

    /// Lead on what an expression makes of a row. A filter lets the row itself through.
    fn row_applied<'py>(
        &mut self,
        py: Python<'py>,
        vertex: usize,
        meta: Meta,
        bytes: &[u8],
        owned: Option<&Row>,
        made: Bound<'py, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        match self.settled(vertex, made).unwrap_or_else(Outcome::Raised) {
            Outcome::Passed => self.row_forward(py, vertex, meta, bytes, owned, tombstone),
            outcome => self.leads_to(vertex, meta, outcome, tombstone, || object_of(py, bytes)),
        }
    }

    /// A row that another worker has routed here: find its key and slot again.
    pub(super) fn row_arrives(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        meta: Meta,
        row: Row,
        tombstone: bool,
    ) -> PyResult<()> {
        if !self.vertices[vertex].takes_rows() {
            return self.arrive(vertex, meta, row.object(py)?, tombstone);
        }
        match self.row_place(py, vertex, row.bytes())? {
            Ok((key, slot)) => self.row_at_home(py, vertex, &key, slot, meta, row, tombstone),
            Err(error) => self.failed_at_door(vertex, &meta, error, tombstone),
        }
    }

    pub(super) fn row_at_home(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        key: &[u8],
        slot: u16,
        meta: Meta,
        row: Row,
        tombstone: bool,
    ) -> PyResult<()> {
        match self.vertices[vertex].kind {
            Kind::Sink => self.row_sinks(py, vertex, slot, meta, row.bytes(), tombstone),
            Kind::Folded => self.row_folds(py, vertex, key, slot, meta, row, tombstone),
            _ => self.at_home(vertex, key, slot, meta, row.object(py)?, tombstone),
        }
    }

    pub(super) fn row_place<'py>(
        &self,
        py: Python<'py>,
        vertex: usize,
        bytes: &[u8],
    ) -> PyResult<Placed<'py>> {
        let found = self.vertices[vertex].row_key.as_ref().and_then(|key| key.of(py, bytes));
        let Some(key) = found else { return self.place(vertex, &object_of(py, bytes)?) };
        Ok(Ok((Key::from_slice(&key), self.slot_of(&key))))
    }

    fn row_sinks(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        slot: u16,
        meta: Meta,
        bytes: &[u8],
        tombstone: bool,
    ) -> PyResult<()> {
        let before = self.meter.enter(slot, vertex, &[]);
        let done = self.row_kept(py, vertex, slot, meta, bytes, tombstone);
        self.meter.leave(before);
        done
    }

    fn row_kept(
        &self,
        py: Python<'_>,
        vertex: usize,
        slot: u16,
        meta: Meta,
        bytes: &[u8],
        tombstone: bool,
    ) -> PyResult<()> {
        let mut barrier = self.barriers.get(&vertex).expect("every sink has a barrier").bind(py).borrow_mut();
        if tombstone {
            return barrier.take_away_encoded(py, &meta, bytes);
        }
        barrier.keep_encoded(meta, slot, bytes.into());
        Ok(())
    }

    fn row_folds(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        key: &[u8],
        slot: u16,
        meta: Meta,
        row: Row,
        tombstone: bool,
    ) -> PyResult<()> {
        let before = self.meter.enter(slot, vertex, key);
        let done = self.row_folded(py, vertex, key, slot, meta, row, tombstone);
        self.meter.leave(before);
        done
    }

    fn row_folded(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        key: &[u8],
        slot: u16,
        meta: Meta,
        row: Row,
        tombstone: bool,
    ) -> PyResult<()> {
        let Some(State::Folded(state)) = self.states.get_mut(&vertex) else {
            unreachable!("a folded reduce has its state")
        };
        let changes = if tombstone {
            Some(state.remove(py, &self.tools, key, slot, &meta, row.bytes())?)
        } else {
            let mut result = std::mem::take(&mut self.scratch);
            result.clear();
            let changes = state.insert(py, &self.tools, &self.cuts, key, slot, &meta, row, &mut result)?;
            let done = if changes.is_none() {
                self.row_forward(py, vertex, meta, &result, None, false)
            } else {
                Ok(())
            };
            self.scratch = result;
            done?;
            changes
        };
        self.row_changes(py, vertex, changes.unwrap_or_default())
    }

    fn row_changes(&mut self, py: Python<'_>, vertex: usize, changes: Changes) -> PyResult<()> {
        for (meta, folded::Outcome { encoded, error }, gone) in changes {
            if error {
                self.failed(vertex, &meta, object_of(py, &encoded)?, gone)?;
            } else {
                self.row_forward(py, vertex, meta, &encoded, None, gone)?;
            }
        }
        Ok(())
    }

    /// An object enters a vertex that takes rows.
    pub(super) fn as_row(&self, payload: &Bound<'_, PyAny>) -> PyResult<Row> {
        Ok(Row::copied(&reference::encoded(payload)?))
    }
}
