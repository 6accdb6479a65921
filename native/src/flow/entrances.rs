//! Entrances: an item enters a vertex, which may be here or at another worker.
//!
//! Does not: say what a vertex does to it (operations.rs, changes.rs), or take rows in as they are
//! (flow_rows.rs).

use crate::flow::items::{Payload, Work};
use crate::flow::vertex::Kind;
use crate::flow::Flow;
use crate::meta::Meta;
use pyo3::prelude::*;

impl Flow {
    /// An item at this worker's door: find its place and work on it, whoever owns the slot.
    pub(super) fn arrive(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        if !matches!(self.vertices[vertex].kind, Kind::Grouping | Kind::Reduce | Kind::Folded | Kind::Sink) {
            return self.apply(vertex, meta, payload, tombstone);
        }
        match self.place(vertex, &payload)? {
            Ok((key, slot)) => self.at_home(vertex, &key, slot, meta, payload, tombstone),
            Err(error) if vertex == self.errors => self.told(&meta, error, tombstone),
            Err(error) => self.failed_at_door(vertex, &meta, error, tombstone),
        }
    }

    /// An item enters `vertex`, wherever its slot lives.
    pub(super) fn enter(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        if self.vertices[vertex].pass > self.pass {
            self.put_off(vertex, meta, Payload::Object(payload.unbind()), tombstone);
            return Ok(());
        }
        if matches!(self.vertices[vertex].kind, Kind::Folded) && self.vertices[vertex].takes_rows() {
            let row = self.as_row(&payload)?;
            return self.row_enters(payload.py(), vertex, meta, row.bytes(), Some(&row), tombstone);
        }
        if !self.vertices[vertex].routed {
            return self.apply(vertex, meta, payload, tombstone);
        }
        match self.place(vertex, &payload)? {
            Err(error) if vertex == self.errors => self.told(&meta, error, tombstone),
            Err(error) => self.failed_at_door(vertex, &meta, error, tombstone),
            Ok((key, slot)) if self.rows.is_some() => self.at_door(vertex, &key, slot, meta, payload),
            Ok((key, slot)) => {
                let owner = self.owner(vertex, slot);
                if owner != self.me {
                    self.send(owner, vertex, &meta, &payload, tombstone)
                } else if self.others_first {
                    let place = Some((key, slot));
                    self.waiting.push(Work {
                        meta,
                        cause: self.cause,
                        vertex,
                        payload: Payload::Object(payload.unbind()),
                        tombstone,
                        place,
                    });
                    Ok(())
                } else {
                    self.at_home(vertex, &key, slot, meta, payload, tombstone)
                }
            }
        }
    }

    /// An item at its slot, which this worker owns.
    pub(super) fn at_home(
        &mut self,
        vertex: usize,
        key: &[u8],
        slot: u16,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let py = payload.py();
        let measured = match self.vertices[vertex].kind {
            Kind::Grouping | Kind::Reduce => key,
            Kind::Sink => &[],
            Kind::Folded => {
                let row = self.as_row(&payload)?;
                return self.row_at_home(py, vertex, key, slot, meta, row, tombstone);
            }
            _ => return self.apply(vertex, meta, payload, tombstone),
        };
        let before = self.meter.enter(slot, vertex, measured);
        let done = self.worked_on(vertex, key, slot, meta, payload, tombstone);
        self.meter.leave(before);
        done
    }

    /// An item behind the door of a grouping, a reduce or a sink.
    fn worked_on(
        &mut self,
        vertex: usize,
        key: &[u8],
        slot: u16,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let py = payload.py();
        match self.vertices[vertex].kind {
            Kind::Sink => {
                let barrier = self.barriers.get(&vertex).expect("every sink has a barrier").bind(py);
                let mut barrier = barrier.borrow_mut();
                if tombstone {
                    barrier.take_away(&meta, &payload)
                } else {
                    barrier.keep(meta, slot, &payload)
                }
            }
            _ => self.keyed(vertex, key, slot, meta, payload, tombstone),
        }
    }
}
