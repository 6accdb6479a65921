//! Places: the key and slot of an item at the door of a vertex, and who works there. The mirror of
//! `core/dataflow/placing.py`.
//!
//! Does not: find the key of a row without decoding it (flow_rows.rs).

use crate::flow::items::Key;
use crate::flow::states::State;
use crate::flow::Flow;
use crate::payload::encoding;
use crate::python::reference;
use pyo3::prelude::*;

/// A canonical key and its slot, or the error that finding them became.
pub type Placed<'py> = Result<(Key, u16), Bound<'py, PyAny>>;

impl Flow {
    /// Who works on the items of a slot at a vertex.
    pub(super) fn owner(&self, vertex: usize, slot: u16) -> u16 {
        self.doors.get(&vertex).unwrap_or(&self.owners)[slot as usize]
    }

    /// The slot of a canonical key.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        // the share of the hashes below this one, as `slot.slot_of` has it
        ((crc32fast::hash(key) as u64 * self.slots) >> 32) as u16
    }

    /// The canonical key and slot of an item, or the error that finding them became.
    pub(super) fn place<'py>(&self, vertex: usize, payload: &Bound<'py, PyAny>) -> PyResult<Placed<'py>> {
        if let Some(place) =
            self.vertices[vertex].sharded.then(|| self.shard_place(vertex, payload)).flatten()
        {
            return Ok(Ok(place));
        }
        let (py, vertex) = (payload.py(), &self.vertices[vertex]);
        let key = match vertex.key_of(payload) {
            Ok(key) => key,
            Err(error) => return Ok(Err(self.tools.error_of(&vertex.users_key, error, payload)?)),
        };
        let encoded = match reference::encoded(&key) {
            Ok(encoded) => encoded,
            Err(error) => return Ok(Err(self.tools.error_of(&vertex.users_key, error, payload)?)),
        };
        let slot = match (&vertex.balance, &vertex.users_balance) {
            (Some(balance), Some(users)) => {
                match balance.bind(py).call1((&key,)).and_then(|value| value.extract::<i64>()) {
                    Ok(value) => (((value - i32::MIN as i64) as u64 * self.slots) >> 32) as u16,
                    Err(error) => return Ok(Err(self.tools.error_of(users, error, payload)?)),
                }
            }
            _ => self.slot_of(&encoded),
        };
        Ok(Ok((Key::from_slice(&encoded), slot)))
    }

    /// The number of an item's shard, which is its key, and the slot that has it.
    fn shard_place(&self, vertex: usize, payload: &Bound<'_, PyAny>) -> Option<(Key, u16)> {
        let Some(State::Shards(state)) = self.states.get(&vertex) else { return None };
        let shard = state.steps.shard(payload)?;
        let mut key = Vec::with_capacity(3);
        encoding::put_unsigned(&mut key, shard);
        let spread = shard * ((1 << 32) / state.steps.shards); // as `process.Even` balances them
        Some((Key::from_slice(&key), ((spread * self.slots) >> 32) as u16))
    }
}
