//! Barriers and deliveries: the mirrors of `core/dataflow/barrier.py` and the hot part of
//! `core/dataflow/delivery.py`.
//!
//! A result is encoded when it is held, once: the same bytes are compared with tombstones, put into bundles
//! and delivered.

use crate::meta::{time_of, Meta};
use crate::payload::encoding;
use crate::payload::row::object_of;
use crate::python::reference::{refused, unmatched};
use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

pub struct Held {
    pub meta: Meta,
    pub slot: u16,
    pub payload: Box<[u8]>,
}

/// The results of one sink on one worker, until minimal time passes them.
#[pyclass(unsendable)]
#[derive(Default)]
pub struct Barrier {
    held: BTreeMap<u64, Vec<Held>>,
    /// Results that were taken away again.
    #[pyo3(get)]
    dropped: u64,
    scratch: Vec<u8>,
}

impl Barrier {
    fn encoded(&mut self, payload: &Bound<'_, PyAny>) -> PyResult<Box<[u8]>> {
        self.scratch.clear();
        encoding::put(payload.py(), &mut self.scratch, payload)
            .or_else(|_| refused(payload, &mut self.scratch))?;
        Ok(self.scratch.as_slice().into())
    }

    pub fn keep(&mut self, meta: Meta, slot: u16, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        let payload = self.encoded(payload)?;
        self.keep_encoded(meta, slot, payload);
        Ok(())
    }

    pub fn keep_encoded(&mut self, meta: Meta, slot: u16, payload: Box<[u8]>) {
        self.held.entry(time_of(&meta)).or_default().push(Held { meta, slot, payload });
    }

    pub fn take_away(&mut self, meta: &Meta, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        let encoded = self.encoded(payload)?;
        self.take_away_encoded(payload.py(), meta, &encoded)
    }

    pub fn take_away_encoded(&mut self, py: Python<'_>, meta: &Meta, payload: &[u8]) -> PyResult<()> {
        let held = self.held.entry(time_of(meta)).or_default();
        match held.iter().position(|other| other.meta == *meta && *other.payload == *payload) {
            Some(place) => {
                held.remove(place);
                self.dropped += 1;
                Ok(())
            }
            None => Err(unmatched(py, "a barrier", meta)),
        }
    }
}

#[pymethods]
impl Barrier {
    #[new]
    fn new() -> Self {
        Barrier::default()
    }

    fn hold(&mut self, meta: &[u8], slot: u16, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        self.keep(Meta::from_slice(meta), slot, payload)
    }

    fn drop(&mut self, meta: &[u8], payload: &Bound<'_, PyAny>) -> PyResult<()> {
        self.take_away(&Meta::from_slice(meta), payload)
    }

    /// Everything below `minimal`, ascending.
    fn release(&mut self, minimal: u64) -> Released {
        let mut released = Vec::new();
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() >= minimal {
                break;
            }
            let mut ready = entry.remove();
            ready.sort_by(|one, other| one.meta.cmp(&other.meta));
            released.append(&mut ready);
        }
        Released { results: released }
    }

    fn __len__(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }
}

/// What a barrier released.
#[pyclass(unsendable)]
pub struct Released {
    results: Vec<Held>,
}

#[pymethods]
impl Released {
    fn __len__(&self) -> usize {
        self.results.len()
    }

    /// (meta, slot, payload) of each.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let results = self
            .results
            .iter()
            .map(|held| Ok((PyBytes::new(py, &held.meta), held.slot, object_of(py, &held.payload)?)));
        PyList::new(py, results.collect::<PyResult<Vec<_>>>()?)?.try_iter()
    }
}

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

/// One sink of one worker in one attempt: the queue of released results and the state of each slot.
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
