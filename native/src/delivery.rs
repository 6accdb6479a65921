//! Deliveries: the mirror of the hot part of `core/dataflow/delivery.py`.

use crate::barrier::{Held, Released};
use crate::meta::{record_of, time_of, Meta};
use crate::payload::encoding;
use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

#[derive(Default)]
struct SlotState {
    sequence: u64,
    t_last: Meta,
    delivered: Meta,
    expected: VecDeque<(Meta, Box<[u8]>)>,
    /// The replay has reached the first expected item.
    comparing: bool,
}

/// Why a replay differs: (slot, meta, kind, what was expected, what came), for the message that Python makes.
type Difference<'py> = (u16, Bound<'py, PyBytes>, &'static str, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The delivery to a sink by one worker in one attempt: the queue of released results and the state of each
/// slot.
#[pyclass(unsendable)]
#[derive(Default)]
pub struct Queue {
    slots: HashMap<u16, SlotState>,
    waiting: VecDeque<Held>,
    /// Slots that a replay has to give something again.
    expecting: BTreeSet<u16>,
}

#[pymethods]
impl Queue {
    #[new]
    fn new() -> Self {
        Queue::default()
    }

    /// The consumer's memory of a slot. `t_last` is empty where a replay is not to be filtered.
    fn opened(&mut self, slot: u16, sequence: u64, t_last: &[u8], expected: Vec<(Vec<u8>, Vec<u8>)>) {
        let state = self.slots.entry(slot).or_insert_with(|| SlotState { sequence, ..SlotState::default() });
        if !t_last.is_empty() {
            state.t_last = Meta::from_slice(t_last);
            state.delivered = Meta::from_slice(t_last);
            self.expecting.insert(slot);
            state
                .expected
                .extend(expected.into_iter().map(|(meta, payload)| (Meta::from_vec(meta), payload.into())));
        }
    }

    /// (slot, sequence, `t_last`) of what each slot has released so far, by slot.
    fn outputs<'py>(&self, py: Python<'py>) -> Vec<(u16, u64, Bound<'py, PyBytes>)> {
        let mut outputs: Vec<_> = self.slots.iter().filter(|(_, state)| !state.t_last.is_empty()).collect();
        outputs.sort_by_key(|(slot, _)| **slot);
        outputs
            .iter()
            .map(|(slot, state)| (**slot, state.sequence, PyBytes::new(py, &state.t_last)))
            .collect()
    }

    /// Released results, ascending. Those delivered before are compared and dropped; the difference, if a
    /// replay differs.
    fn put<'py>(&mut self, py: Python<'py>, released: &mut Released) -> PyResult<Option<Difference<'py>>> {
        let bytes = |data: &[u8]| PyBytes::new(py, data);
        for held in released.results.drain(..) {
            let state = self.slots.entry(held.slot).or_default();
            if held.meta <= state.delivered {
                match state.expected.front() {
                    None => continue,
                    Some((meta, _)) if held.meta < *meta && !state.comparing => continue,
                    Some(_) => {}
                }
                let (meta, payload) = state.expected.pop_front().expect("looked at just now");
                state.comparing = true;
                if meta < held.meta {
                    return Ok(Some((held.slot, bytes(&meta), "missing", bytes(b""), bytes(b""))));
                }
                if meta > held.meta {
                    return Ok(Some((held.slot, bytes(&held.meta), "new", bytes(b""), bytes(b""))));
                }
                if payload != held.payload {
                    return Ok(Some((
                        held.slot,
                        bytes(&held.meta),
                        "other",
                        bytes(&payload),
                        bytes(&held.payload),
                    )));
                }
                continue;
            }
            if let Some((meta, _)) = state.expected.front() {
                return Ok(Some((held.slot, bytes(meta), "missing", bytes(b""), bytes(b""))));
            }
            if held.meta <= state.t_last {
                let message = format!(
                    "slot {} releases {:02x?} after {:02x?}",
                    held.slot,
                    &held.meta[..],
                    &state.t_last[..]
                );
                return Err(PyAssertionError::new_err(message));
            }
            state.t_last = held.meta.clone();
            self.waiting.push_back(held);
        }
        Ok(None)
    }

    /// All results below `floor` were put; the difference, if one of them was delivered and has not come again.
    fn passed<'py>(&mut self, py: Python<'py>, floor: &[u8]) -> Option<Difference<'py>> {
        self.expecting.retain(|slot| !self.slots[slot].expected.is_empty());
        let next = |slot: &u16| self.slots[slot].expected.front().map(|(meta, _)| (*slot, meta));
        let (slot, meta) = self.expecting.iter().filter_map(next).find(|(_, meta)| meta[..] < *floor)?;
        Some((slot, PyBytes::new(py, meta), "missing", PyBytes::new(py, b""), PyBytes::new(py, b"")))
    }

    /// Whether a replay has to give something again.
    #[getter]
    fn expects(&self) -> bool {
        !self.expecting.is_empty()
    }

    /// The time of the first result that waits.
    fn first(&self) -> Option<u64> {
        self.waiting.front().map(|held| time_of(&held.meta))
    }

    /// The times of all results that wait.
    fn times(&self) -> HashSet<u64> {
        self.waiting.iter().map(|held| time_of(&held.meta)).collect()
    }

    fn __len__(&self) -> usize {
        self.waiting.len()
    }

    /// The number of results of the next call, of at most so many.
    fn count(&self, most: usize) -> usize {
        if self.waiting.len() <= most {
            return self.waiting.len();
        }
        let record = |place: usize| record_of(&self.waiting[place].meta);
        // what a record leads to stays together (!); one record alone may have more than a call may
        (1..=most).rev().find(|end| record(*end) != record(end - 1)).unwrap_or(most)
    }

    /// Bundles of the first `count` results, each made by `bundle(slot, sequence, t_last, items)`, in order
    /// of appearance.
    fn cut<'py>(&mut self, count: usize, bundle: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let py = bundle.py();
        let mut order: Vec<u16> = Vec::new();
        let mut gathered: HashMap<u16, (usize, Meta, Vec<u8>)> = HashMap::new();
        for held in self.waiting.drain(..count) {
            let (items, t_last, bytes) = gathered.entry(held.slot).or_insert_with(|| {
                order.push(held.slot);
                (0, Meta::new(), Vec::new())
            });
            *items += 1;
            encoding::put_array(bytes, 2);
            encoding::put_bytes(bytes, &held.meta);
            bytes.extend_from_slice(&held.payload);
            *t_last = held.meta;
        }
        let mut header = Vec::with_capacity(8);
        let mut bundles = Vec::with_capacity(order.len());
        for slot in order {
            let (items, t_last, bytes) = gathered.remove(&slot).expect("gathered above");
            let state = self.slots.get_mut(&slot).expect("every slot that waits has a state");
            state.sequence += 1;
            header.clear();
            encoding::put_array(&mut header, items);
            let encoded = PyBytes::new_with(py, header.len() + bytes.len(), |out| {
                out[..header.len()].copy_from_slice(&header);
                out[header.len()..].copy_from_slice(&bytes);
                Ok(())
            })?;
            bundles.push(bundle.call1((slot, state.sequence, PyBytes::new(py, &t_last), encoded))?);
        }
        PyTuple::new(py, bundles)
    }
}
