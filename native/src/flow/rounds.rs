//! Rounds: what goes round loops waits, in the order of metas. The mirror of `Dataflow._go` and `_go_round`.

use crate::flow::Flow;
use crate::meta::{child, Meta};
use crate::python::reference;
use pyo3::prelude::*;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, HashSet};

/// An item that goes round a loop. Numbers keep the order total.
struct Round {
    meta: Meta,
    number: u64,
    cause: u64,
    vertex: usize,
    payload: Py<PyAny>,
    tombstone: bool,
}

impl PartialEq for Round {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Round {}
impl PartialOrd for Round {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Round {
    fn cmp(&self, other: &Self) -> Ordering {
        self.meta.cmp(&other.meta).then(self.number.cmp(&other.number))
    }
}

/// Items that still go round, by (meta, vertex): number, encoded payload, is it a tombstone.
type Going = HashMap<(Meta, usize), Vec<(u64, Vec<u8>, bool)>>;

#[derive(Default)]
pub struct Rounds {
    around: BinaryHeap<Reverse<Round>>,
    count: u64,
    going: Going,
    /// Numbers that are still in the heap, and are passed over there.
    annihilated: HashSet<u64>,
}

impl Flow {
    /// Work on items that go round and come before `meta`.
    pub(super) fn go_round_below(&mut self, py: Python<'_>, meta: &Meta) -> PyResult<()> {
        while self.rounds.around.peek().is_some_and(|Reverse(round)| round.meta < *meta) {
            self.go_round(py)?;
        }
        Ok(())
    }

    /// Everything that goes round, and transactions that wait.
    pub(super) fn settle(&mut self, py: Python<'_>) -> PyResult<()> {
        while !self.rounds.around.is_empty() || self.look_again(py, None)? {
            while !self.rounds.around.is_empty() {
                self.go_round(py)?;
            }
            self.rounds.going.clear();
        }
        Ok(())
    }

    pub(super) fn round(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        self.led_on[vertex] += 1;
        let count = self.vertices[vertex].outputs.len();
        for edge in 0..count {
            let output = self.vertices[vertex].outputs[edge];
            let meta = if count > 1 { child(&meta, edge) } else { meta.clone() };
            self.go(meta, output, &payload, tombstone)?;
        }
        Ok(())
    }

    /// Begin a round. An item and its tombstone that both still wait annihilate.
    fn go(&mut self, meta: Meta, vertex: usize, payload: &Bound<'_, PyAny>, tombstone: bool) -> PyResult<()> {
        let mut encoded = Vec::new();
        reference::append(payload, &mut encoded)?;
        let waiting = self.rounds.going.entry((meta.clone(), vertex)).or_default();
        if let Some(other) =
            waiting.iter().position(|(_, other, gone)| *gone != tombstone && *other == encoded)
        {
            let (number, _, _) = waiting.remove(other);
            self.rounds.annihilated.insert(number);
            return Ok(());
        }
        self.rounds.count += 1;
        waiting.push((self.rounds.count, encoded, tombstone));
        let payload = payload.clone().unbind();
        self.rounds.around.push(Reverse(Round {
            meta,
            number: self.rounds.count,
            cause: self.cause,
            vertex,
            payload,
            tombstone,
        }));
        Ok(())
    }

    fn go_round(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(Reverse(round)) = self.rounds.around.pop() else { return Ok(()) };
        if self.rounds.annihilated.remove(&round.number) {
            return Ok(());
        }
        if let Some(waiting) = self.rounds.going.get_mut(&(round.meta.clone(), round.vertex)) {
            waiting.retain(|(number, _, _)| *number != round.number);
        }
        self.cause = round.cause;
        self.enter(round.vertex, round.meta, round.payload.into_bound(py), round.tombstone)
    }
}
