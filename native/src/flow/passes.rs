//! Passes: what comes out of state on its way to a function that is asked about batches is put off until all
//! of it is there.
//!
//! Each pass works on the vertices up to its number, in the order that the reference has, and writes down
//! what leaves for later ones, beside everything else whose order others see: what is sent and what failed.
//! The next pass takes that up in the order it was written down, asks about all items together, and so on:
//! each vertex, and each other worker, sees what it would have seen. State of a pass never depends on what a
//! later one does, since there is no loop in such a graph.

use crate::flow::items::{Payload, Work};
use crate::flow::Flow;
use crate::meta::Meta;
use crate::python::reference;
use pyo3::prelude::*;

/// A step of an item that was put off.
pub enum Step {
    /// At this worker's door.
    Door(Work),
    /// On its way into a vertex.
    Entrance(Work),
    Sent {
        owner: u16,
        cause: u64,
        vertex: usize,
        meta: Meta,
        payload: Vec<u8>,
        tombstone: bool,
    },
    Failed {
        meta: Meta,
        error: Py<PyAny>,
        tombstone: bool,
    },
}

/// Outside passes: everything is worked on at once.
pub const ALL: u8 = u8::MAX;

impl Flow {
    /// An item for a vertex of a later pass.
    pub(super) fn put_off(&mut self, vertex: usize, meta: Meta, payload: Payload, tombstone: bool) {
        self.later.push(Step::Entrance(Work {
            meta,
            cause: self.cause,
            vertex,
            payload,
            tombstone,
            place: None,
        }));
    }

    /// To another worker, behind whatever was put off.
    pub(super) fn send(
        &mut self,
        owner: u16,
        vertex: usize,
        meta: &Meta,
        payload: &Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        if self.pass >= self.last_pass {
            return self.outgoing.send(owner, self.cause, vertex, meta, payload, tombstone);
        }
        let payload = reference::encoded(payload)?;
        self.later.push(Step::Sent {
            owner,
            cause: self.cause,
            vertex,
            meta: meta.clone(),
            payload,
            tombstone,
        });
        Ok(())
    }

    pub(super) fn send_encoded(
        &mut self,
        owner: u16,
        vertex: usize,
        meta: &Meta,
        payload: &[u8],
        tombstone: bool,
    ) {
        if self.pass >= self.last_pass {
            return self.outgoing.send_encoded(owner, self.cause, vertex, meta, payload, tombstone);
        }
        self.later.push(Step::Sent {
            owner,
            cause: self.cause,
            vertex,
            meta: meta.clone(),
            payload: payload.to_vec(),
            tombstone,
        });
    }

    /// An error item that no sink takes.
    pub(super) fn told(&mut self, meta: &Meta, error: Bound<'_, PyAny>, tombstone: bool) -> PyResult<()> {
        if self.pass >= self.last_pass {
            return self.on_error(meta, error, tombstone);
        }
        self.later.push(Step::Failed { meta: meta.clone(), error: error.unbind(), tombstone });
        Ok(())
    }

    /// The passes behind the first.
    pub(super) fn next_passes(&mut self, py: Python<'_>) -> PyResult<()> {
        while self.pass < self.last_pass {
            self.pass += 1;
            self.next_pass(py)?;
        }
        Ok(())
    }

    fn next_pass(&mut self, py: Python<'_>) -> PyResult<()> {
        let steps = std::mem::take(&mut self.later);
        let steps: Vec<Step> =
            steps.into_iter().map(|step| self.through_door(py, step)).collect::<PyResult<_>>()?;
        let ahead = self.ahead(
            py,
            steps.iter().map(|step| match step {
                Step::Door(work) => Some((work.vertex, &work.payload)),
                Step::Entrance(work) if !self.vertices[work.vertex].routed => {
                    Some((work.vertex, &work.payload))
                }
                _ => None,
            }),
        )?;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Door(ref work) | Step::Entrance(ref work)
                    if self.vertices[work.vertex].pass > self.pass =>
                {
                    self.later.push(step)
                }
                Step::Door(work) => self.at_hand(py, &ahead, number, work)?,
                Step::Entrance(Work { meta, cause, vertex, payload, tombstone, .. }) => {
                    self.cause = cause;
                    match payload {
                        payload if ahead.has(number) => {
                            self.go_ahead(py, &ahead, number, meta, payload, tombstone)?
                        }
                        Payload::Row(row) => {
                            self.row_enters(py, vertex, meta, row.bytes(), Some(&row), tombstone)?
                        }
                        Payload::Object(object) => {
                            self.enter(vertex, meta, object.into_bound(py), tombstone)?
                        }
                    }
                }
                Step::Sent { owner, cause, vertex, meta, payload, tombstone } => {
                    self.cause = cause;
                    self.send_encoded(owner, vertex, &meta, &payload, tombstone);
                }
                Step::Failed { meta, error, tombstone } => {
                    self.told(&meta, error.into_bound(py), tombstone)?
                }
            }
        }
        self.settle(py)
    }

    /// The step behind a door that an item comes to in this pass: it stands there now, or is sent. One that
    /// its key's function refuses stays as it is.
    fn through_door(&self, py: Python<'_>, step: Step) -> PyResult<Step> {
        let Step::Entrance(work) = step else { return Ok(step) };
        let this = &self.vertices[work.vertex];
        if !this.routed || this.pass != self.pass || !self.has_outlook(work.vertex) {
            return Ok(Step::Entrance(work));
        }
        let Work { meta, cause, vertex, payload, tombstone, .. } = work;
        let object = payload.object(py)?;
        let Ok((key, slot)) = self.place(vertex, &object)? else {
            return Ok(Step::Entrance(Work { meta, cause, vertex, payload, tombstone, place: None }));
        };
        let owner = self.owner(vertex, slot);
        if owner == self.me {
            return Ok(Step::Door(Work {
                meta,
                cause,
                vertex,
                payload: Payload::Object(object.unbind()),
                tombstone,
                place: Some((key, slot)),
            }));
        }
        Ok(Step::Sent { owner, cause, vertex, meta, payload: reference::encoded(&object)?, tombstone })
    }
}
