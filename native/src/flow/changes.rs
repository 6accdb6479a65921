//! Changes: what an item behind its door does to keyed state, and the results that change by it.

use crate::flow::states::State;
use crate::flow::Flow;
use crate::meta::{time_of, Meta};
use crate::state::accumulators::Changes;
use crate::state::transactions::Transactions;
use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Flow {
    /// An item or tombstone at a grouping or a reduce.
    pub(super) fn keyed(
        &mut self,
        vertex: usize,
        key: &[u8],
        slot: u16,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        if self.ledger == Some(vertex) {
            self.look_again(payload.py(), Some(&meta))?;
        }
        let changes = match self.states.get_mut(&vertex).expect("keyed vertices have state") {
            State::Grouping(state) if tombstone => state.remove(key, slot, &meta, &payload)?,
            State::Grouping(state) => state.insert(&self.cuts, key, slot, &meta, &payload)?,
            State::Folded(_) => return Err(PyAssertionError::new_err("a folded reduce takes rows")),
            State::Shards(state) if tombstone => state.remove(&self.tools, key, slot, &meta, &payload)?,
            State::Shards(state) => state.insert(&self.tools, &self.cuts, key, slot, &meta, &payload)?,
            State::Transactions(state) if tombstone => state.remove(&self.cuts, slot, &meta, &payload)?,
            State::Transactions(state) => state.insert(&self.cuts, slot, &meta, &payload)?,
            State::Reduce(state) if tombstone => state.remove(&self.tools, key, slot, &meta, &payload)?,
            State::Reduce(state) => {
                match state.insert(&self.tools, &self.cuts, key, slot, &meta, &payload)? {
                    Ok(result) => return self.changed(vertex, meta, result, false),
                    Err(changes) => changes,
                }
            }
        };
        if self.vertices[vertex].sharded {
            self.tell_late(vertex, &changes)?;
        }
        self.all_changed(vertex, changes)
    }

    /// The transactions of the graph, if it has any.
    pub(super) fn transactions(&mut self) -> Option<&mut Transactions> {
        match self.ledger.and_then(|vertex| self.states.get_mut(&vertex)) {
            Some(State::Transactions(state)) => Some(state),
            _ => None,
        }
    }

    /// Look at all transactions that wait, below `limit` if it is given. Were there any?
    pub(super) fn look_again(&mut self, py: Python<'_>, limit: Option<&Meta>) -> PyResult<bool> {
        // not between others' share and this worker's: what is decided here may be followed by its tombstone (!)
        let Some(vertex) = self.ledger.filter(|_| !self.others_first) else { return Ok(false) };
        let (cause, mut entered) = (self.cause, None);
        loop {
            let State::Transactions(state) = self.states.get_mut(&vertex).expect("a ledger has state") else {
                return Err(PyAssertionError::new_err("a ledger's state is transactions"));
            };
            if !state.waits(limit) {
                break;
            }
            let slot = state.slot;
            entered = entered.or_else(|| Some(self.meter.enter(slot, vertex, &[])));
            let changes = state.look(py, &self.cuts)?;
            if let Some((meta, _, _)) = changes.first() {
                self.cause = time_of(meta); // (!) its own: `Dataflow._look_again` says why
            }
            self.all_changed(vertex, changes)?;
        }
        self.cause = cause;
        let looked = entered.is_some();
        entered.into_iter().for_each(|before| self.meter.leave(before));
        Ok(looked)
    }

    /// How many results are items that came too late, of an item or mark and of its tombstone alike.
    fn tell_late(&self, vertex: usize, changes: &Changes<'_>) -> PyResult<()> {
        let (Some(told), Some(State::Shards(state))) = (&self.on_late, self.states.get(&vertex)) else {
            return Ok(());
        };
        for (meta, value, gone) in changes {
            let number = state.steps.late_among(value);
            if number > 0 {
                told.bind(value.py()).call1((PyBytes::new(value.py(), meta), number, gone))?;
            }
        }
        Ok(())
    }

    fn all_changed(&mut self, vertex: usize, changes: Changes<'_>) -> PyResult<()> {
        for (meta, value, gone) in changes {
            self.changed(vertex, meta, value, gone)?;
        }
        Ok(())
    }

    /// A result goes on; one that is an error value goes where errors go.
    pub(super) fn changed(
        &mut self,
        vertex: usize,
        meta: Meta,
        value: Bound<'_, PyAny>,
        gone: bool,
    ) -> PyResult<()> {
        if self.is_error(&value) {
            self.failed(vertex, &meta, value, gone)
        } else {
            self.forward(vertex, meta, value, gone)
        }
    }
}
