//! Dataflow: the mirror of `core/dataflow/dataflow.py`, item by item in the same order, with the same
//! results.

pub mod answers;
pub mod describe;
pub mod doors;
pub mod flow_doors;
pub mod flow_rows;
pub mod outgoing;
pub mod outlook;
pub mod passes;
pub mod rounds;
pub mod stages;

use crate::barrier::Barrier;
use crate::flow::describe::{vertex_of, Kind, State, Vertex};
use crate::flow::doors::{Given, Numbers, Rows, Taken};
use crate::flow::flow_doors::{Chunk, Held};
use crate::flow::outgoing::Outgoing;
use crate::flow::outlook::{outlooks, passes, Outlook};
use crate::flow::passes::{Step, ALL};
use crate::flow::rounds::Rounds;
use crate::flow::stages::Ahead;
use crate::meta::{child, components, Floor, Meta};
use crate::payload::codec;
use crate::payload::decoding::Reader;
use crate::payload::encoding;
use crate::payload::plans::MAX_DEPTH;
use crate::payload::row::Row;
use crate::python::reference::{self, Tools};
use crate::state::keyed::Changed;
use crate::state::reduce::Changes;
use crate::with_table;
use pyo3::exceptions::{PyAssertionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

pub type Key = SmallVec<[u8; 32]>;

/// As an object, or as it was encoded.
pub enum Payload {
    Object(Py<PyAny>),
    Row(Row),
}

impl Payload {
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Payload::Object(object) => Ok(object.bind(py).clone()),
            Payload::Row(row) => row.object(py),
        }
    }
}

/// An item at this worker's door, or one that waits there with its place known.
pub struct Work {
    pub meta: Meta,
    pub cause: u64,
    pub vertex: usize,
    pub payload: Payload,
    pub tombstone: bool,
    pub place: Option<(Key, u16)>,
}

/// What an ordinary function made of an item.
pub enum Outcome<'py> {
    One(Bound<'py, PyAny>),
    Several(Vec<Bound<'py, PyAny>>),
    /// The item itself, of a filter.
    Passed,
    Nothing,
    /// What it gave is an error value.
    Error(Bound<'py, PyAny>),
    Raised(PyErr),
}

pub type Placed<'py> = Result<(Key, u16), Bound<'py, PyAny>>;

/// The graph on one worker.
#[pyclass(unsendable)]
pub struct Flow {
    pub(crate) vertices: Vec<Vertex>,
    /// None if nothing is asked about batches.
    pub(crate) outlooks: Option<Vec<Outlook>>,
    /// The pass that is under way, the last that there is, and what is put off for later ones.
    pub(crate) pass: u8,
    pub(crate) last_pass: u8,
    pub(crate) later: Vec<Step>,
    pub(crate) states: HashMap<usize, State>,
    pub(crate) tools: Tools,
    error_type: Py<PyAny>,
    /// `Output.located(vertex, meta, error, at_door) -> error`.
    located: Py<PyAny>,
    pub(crate) slots: u64,
    pub(crate) errors: usize,
    /// Error items go to the slot of a sink.
    dead_letter: bool,
    /// Called as (meta, error, is it a tombstone) with error items that no sink takes.
    on_error: Py<PyAny>,
    /// Called as (meta, number, is it a tombstone) where items came too late; None: nobody counts them.
    on_late: Option<Py<PyAny>>,
    pub(crate) me: u16,
    pub(crate) owners: Vec<u16>,
    /// Who has each slot at vertices whose items do not go to the slot's owner.
    doors: HashMap<usize, Vec<u16>>,
    pub(crate) barriers: HashMap<usize, Py<Barrier>>,
    pub(crate) outgoing: Outgoing,
    pub(crate) cause: u64,
    pub(crate) cuts: Vec<Floor>,
    arrived: Vec<Work>,
    pub(crate) waiting: Vec<Work>,
    pub(crate) others_first: bool,
    pub(crate) rounds: Rounds,
    /// Where a result is written before it is kept.
    pub(crate) scratch: Vec<u8>,
    /// Of a batch: what stands at a door becomes a row, whoever owns its slot.
    pub(crate) rows: Option<Rows>,
    pub(crate) held: Held,
    pub(crate) chunk: Option<Chunk>,
}

fn floors(cuts: &Bound<'_, PyList>) -> PyResult<Vec<Floor>> {
    cuts.iter().map(|cut| floor_of(cut.cast::<PyBytes>()?.as_bytes())).collect()
}

fn floor_of(cut: &[u8]) -> PyResult<Floor> {
    cut.try_into().map_err(|_| PyValueError::new_err("a floor has eight bytes"))
}

#[pymethods]
impl Flow {
    /// `vertices`: dicts, as core/dataflow/native.py makes them.
    #[new]
    #[pyo3(signature = (vertices, *, slots, me, dead_letter, make_error, error_type, located, on_error, on_late=None))]
    fn new(
        vertices: &Bound<'_, PyList>,
        slots: u64,
        me: u16,
        dead_letter: bool,
        make_error: Py<PyAny>,
        error_type: Py<PyAny>,
        located: Py<PyAny>,
        on_error: Py<PyAny>,
        on_late: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut made = Vec::new();
        let mut states = HashMap::new();
        for (number, described) in vertices.iter().enumerate() {
            let described = described.cast::<PyDict>()?;
            let (vertex, state) = vertex_of(number, described)?;
            made.push(vertex);
            if let Some(state) = state {
                states.insert(number, state);
            }
        }
        let outlooks = outlooks(&made);
        if let Some(outlooks) = &outlooks {
            passes(&made, outlooks).into_iter().zip(&mut made).for_each(|(pass, vertex)| vertex.pass = pass);
        }
        Ok(Flow {
            errors: made.len() - 1,
            outlooks,
            pass: ALL,
            last_pass: made.iter().map(|vertex| vertex.pass).max().unwrap_or(0),
            later: Vec::new(),
            vertices: made,
            states,
            tools: Tools { make_error },
            error_type,
            located,
            slots,
            dead_letter,
            on_error,
            on_late,
            me,
            owners: vec![me; slots as usize],
            doors: HashMap::new(),
            barriers: HashMap::new(),
            outgoing: Outgoing::default(),
            cause: 0,
            cuts: Vec::new(),
            arrived: Vec::new(),
            waiting: Vec::new(),
            others_first: false,
            rounds: Rounds::default(),
            scratch: Vec::new(),
            rows: None,
            held: Held::default(),
            chunk: None,
        })
    }

    /// A new attempt: who owns each slot, everywhere or at some `doors`, and the barrier of each sink.
    /// Whatever was on its way is forgotten.
    fn reset(
        &mut self,
        owners: Vec<u16>,
        barriers: HashMap<usize, Py<Barrier>>,
        doors: HashMap<usize, Vec<u16>>,
    ) {
        (self.owners, self.doors) = (owners, doors);
        self.barriers = barriers;
        self.outgoing = Outgoing::default();
        self.rounds = Rounds::default();
        self.arrived.clear();
        self.waiting.clear();
        (self.pass, self.chunk) = (ALL, None);
        self.later.clear();
    }

    /// Items of a peer's message join the next `run`.
    fn receive(
        &mut self,
        py: Python<'_>,
        cause: u64,
        vertices: Vec<usize>,
        metas: &Bound<'_, PyList>,
        tombstones: Vec<bool>,
        payloads: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        let count = vertices.len();
        if metas.len() != count
            || tombstones.len() != count
            || vertices.iter().any(|vertex| *vertex >= self.vertices.len())
        {
            return Err(PyValueError::new_err("the columns of a message do not fit each other or the graph"));
        }
        let payloads = self.payloads(py, &vertices, payloads)?;
        if payloads.len() != count {
            return Err(PyValueError::new_err("the columns of a message do not fit each other"));
        }
        for (place, payload) in payloads.into_iter().enumerate() {
            let meta = Meta::from_slice(metas.get_item(place)?.cast::<PyBytes>()?.as_bytes());
            self.arrived.push(Work {
                meta,
                cause,
                vertex: vertices[place],
                payload,
                tombstone: tombstones[place],
                place: None,
            });
        }
        Ok(())
    }

    /// Is there anything for `run` but new runs?
    #[getter]
    fn has_work(&self) -> bool {
        !self.arrived.is_empty() || !self.waiting.is_empty()
    }

    /// Did `share` put anything off?
    #[getter]
    fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Process new runs, each (meta, cause, vertex, payload), up to the doors of keyed vertices.
    fn share(&mut self, py: Python<'_>, runs: &Bound<'_, PyList>, cuts: &Bound<'_, PyList>) -> PyResult<()> {
        self.cuts = floors(cuts)?;
        let work = entered(runs)?;
        self.others_first = true;
        let done = self.process(py, work);
        self.others_first = false;
        done
    }

    /// Process new runs, what arrived and what waits, and everything that follows, in the order of metas.
    fn run(&mut self, py: Python<'_>, runs: &Bound<'_, PyList>, cuts: &Bound<'_, PyList>) -> PyResult<()> {
        self.cuts = floors(cuts)?;
        let mut work = entered(runs)?;
        work.append(&mut self.waiting);
        work.append(&mut self.arrived);
        self.process(py, work)
    }

    /// A record that its source could not read enters as an error item.
    fn bad_record(
        &mut self,
        py: Python<'_>,
        cause: u64,
        meta: &[u8],
        error: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.cause = cause;
        let _ = py;
        self.error_item(Meta::from_slice(meta), error, false)
    }

    /// The messages gathered since the last call: (owner, cause, vertices, metas, tombstones, payloads).
    fn take_messages<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.outgoing.take(py)
    }

    // --- batches -------------------------------------------------------------------------------------------

    /// From now on what stands at a door becomes a row.
    fn collect_rows(&mut self) {
        self.rows = Some(Rows::default());
    }

    /// The rows so far, as buffers of Arrow's columns.
    fn take_rows<'py>(&mut self, py: Python<'py>) -> Taken<'py> {
        self.rows.get_or_insert_default().take(py)
    }

    /// (meta, encoding) of the first error item, None if there was none.
    fn least_error<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (meta, error) = self.rows.as_ref()?.least_error.as_ref()?;
        Some((PyBytes::new(py, meta), PyBytes::new(py, error)))
    }

    /// Records of one run enter `vertex`, from number `at` of the list on, the first of which is child
    /// `first` of `start`. Ends early when the rows are full: the number of the next record.
    fn enter_records(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        start: &[u8],
        first: usize,
        records: &Bound<'_, PyList>,
        at: usize,
    ) -> PyResult<usize> {
        self.entered(py, vertex, &Meta::from_slice(start), first, records, at)
    }

    /// A key's rows after the other, ascending within a key, from row `at` of `count` on: each an item at a
    /// keyed vertex that no cycle comes back to. Ends early when the rows are full: the number of the next
    /// row.
    fn fold_rows<'py>(
        &mut self,
        py: Python<'py>,
        to: &Bound<'py, PyAny>,
        key: &Bound<'py, PyAny>,
        meta: &Bound<'py, PyAny>,
        payload: &Bound<'py, PyAny>,
        at: usize,
        count: usize,
    ) -> PyResult<usize> {
        let (to, key, meta, payload) =
            (Numbers::new(to)?, Given::new(key)?, Given::new(meta)?, Given::new(payload)?);
        for row in at..count {
            let vertex = to.at(row)? as usize;
            let value = codec::decode(py, payload.at(row)?)?;
            self.fold_row(vertex, key.at(row)?, Meta::from_slice(meta.at(row)?), value)?;
            self.settle(py)?;
            if self.rows_full() {
                return Ok(row + 1);
            }
        }
        Ok(count)
    }

    // --- state ---------------------------------------------------------------------------------------------

    /// What changed since the committed cut is what `rows` goes through.
    fn begin_rows(&mut self, operation: usize) -> PyResult<()> {
        with_table!(self.state_mut(operation)?, table => table.begin_rows());
        Ok(())
    }

    /// What changed of the next `count` buckets between two cuts: `row(operation, slot, key, epoch, is it
    /// full, state)` or None for each.
    fn rows<'py>(
        &mut self,
        operation: usize,
        count: usize,
        epoch: u64,
        committed: &[u8],
        cut: &[u8],
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let (py, committed, cut) = (row.py(), floor_of(committed)?, floor_of(cut)?);
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(bucket) = with_table!(self.state_mut(operation)?, table => table.encoding.pop()) else {
                break;
            };
            let made = match self.state_mut(operation)? {
                State::Grouping(state) => state.row(py, bucket, &committed, &cut)?,
                State::Reduce(state) => state.row(py, bucket, &committed, &cut)?,
                State::Folded(state) => state.row(py, bucket, &committed, &cut)?,
                State::Shards(state) => state.row(py, bucket, &committed, &cut)?,
            };
            rows.push(match made {
                Some(Changed { slot, key, full, state }) => {
                    Some(row.call1((operation, slot, key, epoch, full, state))?)
                }
                None => None,
            });
        }
        Ok(rows)
    }

    fn begin_trimming(&mut self, operation: usize) -> PyResult<usize> {
        Ok(with_table!(self.state_mut(operation)?, table => table.begin_trimming()))
    }

    /// Visit up to `count` buckets behind a commit. How many those were.
    fn trim(
        &mut self,
        operation: usize,
        count: usize,
        cuts: &Bound<'_, PyList>,
        limit: &[u8],
    ) -> PyResult<usize> {
        let (cuts, limit) = (floors(cuts)?, floor_of(limit)?);
        Ok(
            with_table!(self.state_mut(operation)?, table => (0..count).take_while(|_| table.trim_next(&cuts, &limit)).count()),
        )
    }

    fn go_back(&mut self, operation: usize, cut: &[u8]) -> PyResult<()> {
        let limit = floor_of(cut)?;
        with_table!(self.state_mut(operation)?, table => table.go_back(&limit));
        Ok(())
    }

    fn keep(&mut self, operation: usize, slots: HashSet<u16>) -> PyResult<()> {
        with_table!(self.state_mut(operation)?, table => table.keep(|slot| slots.contains(&slot)));
        Ok(())
    }

    /// Take the state of whole slots from `chain.Chain`s. The first one whose first state is not a whole one,
    /// if there is one.
    fn load<'py>(
        &mut self,
        operation: usize,
        chains: &Bound<'py, PyList>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        with_table!(self.state_mut(operation)?, table => table.reserve(chains.len()));
        for chain in chains.iter() {
            let chain = chain.cast_into::<PyTuple>()?;
            if !chain.get_item(4)?.is_truthy()? {
                return Ok(Some(chain));
            }
            self.restore(operation, &chain)?;
        }
        Ok(None)
    }

    /// (slot, key) of every bucket, for tests and tools.
    fn keys<'py>(&mut self, py: Python<'py>, operation: usize) -> PyResult<Vec<(u16, Bound<'py, PyBytes>)>> {
        Ok(
            with_table!(self.state_mut(operation)?, table => table.all().map(|b| (b.slot, PyBytes::new(py, &b.key))).collect()),
        )
    }

    /// The accumulator of a reduce, or the last items of a grouping, below a live cut; None if there is none.
    fn state_at<'py>(
        &mut self,
        py: Python<'py>,
        operation: usize,
        key: &[u8],
        cut: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.state_mut(operation)? {
            State::Grouping(state) => {
                let window = state.window;
                let Some(at) = state.table.find(key) else { return Ok(None) };
                let items = &state.table.at(at).content.items;
                let end = items.partition_point(|(meta, _)| meta[..] < *cut);
                let last: Vec<_> = items[(end + 1).saturating_sub(window)..end]
                    .iter()
                    .map(|(_, payload)| payload.bind(py))
                    .collect();
                Ok(Some(PyTuple::new(py, last)?.into_any()))
            }
            State::Reduce(state) => {
                let Some(at) = state.table.find(key) else { return Ok(None) };
                let end = state.table.at(at).content.0.partition_point(|entry| entry.meta[..] < *cut);
                if end == 0 {
                    Ok(None)
                } else {
                    state.accumulator(py, at, end - 1)
                }
            }
            State::Folded(state) => {
                let Some(at) = state.table.find(key) else { return Ok(None) };
                let end = state.table.at(at).content.below(cut);
                if end == 0 {
                    Ok(None)
                } else {
                    state.object(py, at, end - 1)
                }
            }
            State::Shards(state) => state.state_at(py, key, cut),
        }
    }
}

pub fn decode_many<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut reader = Reader::new(data);
    let read = (|| {
        let count = reader.array()?;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(reader.value(py, MAX_DEPTH)?);
        }
        if reader.at_end() {
            Ok(values)
        } else {
            Err(encoding::Unsupported)
        }
    })();
    match read {
        Ok(values) => Ok(values),
        Err(_) => reference::decode_many(py, data)?.try_iter()?.collect(),
    }
}

fn decode_items(py: Python<'_>, data: &[u8]) -> PyResult<Vec<(Meta, Py<PyAny>)>> {
    let items: Vec<(Bound<'_, PyBytes>, Bound<'_, PyAny>)> = match codec::items(py, data) {
        Ok(items) => items,
        Err(_) => reference::decode_items(py, data)?.extract()?,
    };
    Ok(items
        .into_iter()
        .map(|(meta, payload)| (Meta::from_slice(meta.as_bytes()), payload.unbind()))
        .collect())
}

fn entered(runs: &Bound<'_, PyList>) -> PyResult<Vec<Work>> {
    let mut work = Vec::with_capacity(runs.len());
    for run in runs.iter() {
        let run = run.cast_into::<PyTuple>()?;
        work.push(Work {
            meta: Meta::from_slice(run.get_item(0)?.cast::<PyBytes>()?.as_bytes()),
            cause: run.get_item(1)?.extract()?,
            vertex: run.get_item(2)?.extract()?,
            payload: Payload::Object(run.get_item(3)?.unbind()),
            tombstone: run.get_item(4)?.extract()?,
            place: None,
        });
    }
    Ok(work)
}

impl Flow {
    /// Who works on the items of a slot at a vertex.
    pub(crate) fn owner(&self, vertex: usize, slot: u16) -> u16 {
        self.doors.get(&vertex).unwrap_or(&self.owners)[slot as usize]
    }

    /// Restore one bucket from its chain.
    fn restore(&mut self, operation: usize, chain: &Bound<'_, PyTuple>) -> PyResult<()> {
        let py = chain.py();
        let slot: u16 = chain.get_item(1)?.extract()?;
        let (key, states) =
            (chain.get_item(2)?.cast_into::<PyBytes>()?, chain.get_item(5)?.cast_into::<PyTuple>()?);
        let mut sizes = Vec::with_capacity(states.len());
        for state in states.iter() {
            sizes.push(state.cast::<PyBytes>()?.as_bytes().len());
        }
        let (key, full, behind) = (key.as_bytes(), sizes[0], sizes[1..].iter().sum());
        match self.state_mut(operation)? {
            State::Grouping(state) => {
                let items =
                    decode_items(py, states.get_item(states.len() - 1)?.cast::<PyBytes>()?.as_bytes())?;
                state.table.restored(key, slot, full, behind).items = items;
            }
            State::Reduce(state) => {
                state.table.restored(key, slot, full, behind).restored(states.into_any().unbind())
            }
            State::Folded(state) => {
                state.table.restored(key, slot, full, behind).restored(states.into_any().unbind())
            }
            State::Shards(state) => {
                state.table.restored(key, slot, full, behind).restored(states.into_any().unbind())
            }
        }
        Ok(())
    }

    fn state_mut(&mut self, operation: usize) -> PyResult<&mut State> {
        self.states
            .get_mut(&operation)
            .ok_or_else(|| PyValueError::new_err(format!("vertex {operation} has no state")))
    }

    fn process(&mut self, py: Python<'_>, mut work: Vec<Work>) -> PyResult<()> {
        self.pass = if self.others_first { ALL } else { 0 }; // new runs alone come to no state
        self.later.clear();
        work.sort_by(|one, other| one.meta.cmp(&other.meta).then(one.tombstone.cmp(&other.tombstone)));
        let ahead = self.ahead(py, work.iter().map(|item| Some((item.vertex, &item.payload))))?;
        for (number, item) in work.into_iter().enumerate() {
            self.go_round_below(py, &item.meta)?;
            if self.vertices[item.vertex].pass > self.pass {
                self.later.push(Step::Door(item))
            } else {
                self.at_hand(py, &ahead, number, item)?
            }
        }
        self.settle(py)?;
        self.next_passes(py)?;
        self.pass = ALL;
        Ok(())
    }

    /// An item whose turn it is.
    pub fn at_hand(&mut self, py: Python<'_>, ahead: &Ahead, number: usize, item: Work) -> PyResult<()> {
        self.cause = item.cause;
        match (item.payload, item.place) {
            (payload, _) if ahead.has(number) => {
                self.go_ahead(py, ahead, number, item.meta, payload, item.tombstone)
            }
            (Payload::Object(payload), Some((key, slot))) => {
                self.at_home(item.vertex, &key, slot, item.meta, payload.into_bound(py), item.tombstone)
            }
            (Payload::Object(payload), None) => {
                self.arrive(item.vertex, item.meta, payload.into_bound(py), item.tombstone)
            }
            (Payload::Row(row), Some((key, slot))) => {
                self.row_at_home(py, item.vertex, &key, slot, item.meta, row, item.tombstone)
            }
            (Payload::Row(row), None) => self.row_arrives(py, item.vertex, item.meta, row, item.tombstone),
        }
    }

    /// An item at this worker's door: find its place and work on it, whoever owns the slot.
    pub fn arrive(
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
    pub fn enter(
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

    /// The slot of a canonical key.
    pub fn slot_of(&self, key: &[u8]) -> u16 {
        ((crc32fast::hash(key) as u64 * self.slots) >> 32) as u16
    }

    /// The canonical key and slot of an item, or the error that finding them became.
    pub fn place<'py>(&self, vertex: usize, payload: &Bound<'py, PyAny>) -> PyResult<Placed<'py>> {
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

    /// An item at its slot, which this worker owns.
    pub fn at_home(
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
            Kind::Folded => {
                let row = self.as_row(&payload)?;
                self.row_at_home(py, vertex, key, slot, meta, row, tombstone)
            }
            Kind::Grouping | Kind::Reduce => self.keyed(vertex, key, slot, meta, payload, tombstone),
            _ => self.apply(vertex, meta, payload, tombstone),
        }
    }

    fn keyed(
        &mut self,
        vertex: usize,
        key: &[u8],
        slot: u16,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let changes = match self.states.get_mut(&vertex).expect("keyed vertices have state") {
            State::Grouping(state) if tombstone => state.remove(key, slot, &meta, &payload)?,
            State::Grouping(state) => state.insert(&self.cuts, key, slot, &meta, &payload)?,
            State::Folded(_) => return Err(PyAssertionError::new_err("a folded reduce takes rows")),
            State::Shards(state) if tombstone => state.remove(&self.tools, key, slot, &meta, &payload)?,
            State::Shards(state) => state.insert(&self.tools, &self.cuts, key, slot, &meta, &payload)?,
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

    pub fn changed(
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

    pub fn is_error(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type().as_ptr() == self.error_type.as_ptr()
    }

    /// Along all edges out of `vertex`.
    pub fn forward(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let count = self.vertices[vertex].outputs.len();
        if count == 1 {
            let output = self.vertices[vertex].outputs[0];
            return self.enter(output, meta, payload, tombstone);
        }
        for edge in 0..count {
            let output = self.vertices[vertex].outputs[edge];
            self.enter(output, child(&meta, edge), payload.clone(), tombstone)?;
        }
        Ok(())
    }

    /// What a vertex without state does with an item.
    pub fn apply(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let py = payload.py();
        let this = &self.vertices[vertex];
        match &this.kind {
            Kind::Forward => self.forward(vertex, meta, payload, tombstone),
            Kind::Loop { limit, too_often } => {
                if meta.len() - 8 > *limit && components(&meta) > *limit {
                    let error = too_often.bind(py).clone();
                    return self.failed(vertex, &meta, error, tombstone);
                }
                self.round(vertex, meta, payload, tombstone)
            }
            Kind::Map | Kind::FlatMap | Kind::Filter if this.batch.is_some() => {
                self.asked_alone(vertex, meta, payload, tombstone)
            }
            Kind::Map | Kind::FlatMap | Kind::Filter => self.applied(vertex, meta, payload, tombstone),
            Kind::Arrival => self.arrived(vertex, meta, payload, tombstone),
            Kind::Grouping | Kind::Reduce | Kind::Folded | Kind::Sink => {
                Err(PyAssertionError::new_err("a keyed vertex is entered by its place"))
            }
        }
    }

    fn applied(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let outcome = self.outcome(vertex, &payload);
        self.leads_to(vertex, meta, outcome, tombstone, || Ok(payload))
    }

    /// What was made of an item goes on. `payload`: the item itself, if that is needed.
    pub fn leads_to<'py>(
        &mut self,
        vertex: usize,
        meta: Meta,
        outcome: Outcome<'py>,
        tombstone: bool,
        payload: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        match outcome {
            Outcome::One(made) => self.forward(vertex, meta, made, tombstone),
            Outcome::Passed => self.forward(vertex, meta, payload()?, tombstone),
            Outcome::Nothing => Ok(()),
            Outcome::Several(all) => {
                for (index, made) in all.into_iter().enumerate() {
                    self.forward(vertex, child(&meta, index), made, tombstone)?;
                }
                Ok(())
            }
            Outcome::Error(error) => self.failed(vertex, &meta, error, tombstone),
            Outcome::Raised(error) => self.raised(vertex, &meta, error, &payload()?, tombstone),
        }
    }

    /// Its place is given to the function too: when its record arrived is there, as the journal has it (!).
    fn arrived(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let function = self.vertices[vertex]
            .function
            .as_ref()
            .expect("the graph's builder gives every operation its functions");
        let outcome = function
            .bind(payload.py())
            .call1((&payload, PyBytes::new(payload.py(), &meta)))
            .and_then(|made| self.settled(vertex, made))
            .unwrap_or_else(Outcome::Raised);
        self.leads_to(vertex, meta, outcome, tombstone, || Ok(payload))
    }

    /// What an ordinary function makes of an item.
    pub fn outcome<'py>(&self, vertex: usize, payload: &Bound<'py, PyAny>) -> Outcome<'py> {
        let this = &self.vertices[vertex];
        if let Some(others) = this.others.as_ref().filter(|others| others.has(payload)) {
            let result = if others.itself { vec![Ok(payload.clone())] } else { Vec::new() };
            return listed(this, result.into_iter()).map_or_else(Outcome::Raised, Outcome::Several);
        }
        this.called(payload).and_then(|made| self.settled(vertex, made)).unwrap_or_else(Outcome::Raised)
    }

    /// What a function gave, as what it leads to.
    pub fn settled<'py>(&self, vertex: usize, made: Bound<'py, PyAny>) -> PyResult<Outcome<'py>> {
        let this = &self.vertices[vertex];
        Ok(match this.kind {
            Kind::Map | Kind::Arrival => {
                if reference::checked_size(&made)? > this.max_result_bytes {
                    return Err(reference::beyond(made.py(), "too_big_results", this.max_result_bytes));
                }
                if self.is_error(&made) {
                    Outcome::Error(made)
                } else {
                    Outcome::One(made)
                }
            }
            Kind::Filter if made.is_truthy()? => Outcome::Passed,
            Kind::Filter => Outcome::Nothing,
            _ => Outcome::Several(match made.cast_exact::<PyList>() {
                Ok(list) => listed(this, list.iter().map(Ok))?,
                Err(_) => listed(this, made.try_iter()?)?,
            }),
        })
    }

    pub fn raised(
        &mut self,
        vertex: usize,
        meta: &Meta,
        error: PyErr,
        payload: &Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let users = self.vertices[vertex]
            .users
            .as_ref()
            .expect("the graph's builder gives every operation its functions");
        let error = self.tools.error_of(users, error, payload)?;
        self.failed(vertex, meta, error, tombstone)
    }

    // --- errors --------------------------------------------------------------------------------------------

    pub fn failed(
        &mut self,
        vertex: usize,
        meta: &Meta,
        error: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        self.failed_where(vertex, meta, error, tombstone, false)
    }

    /// Finding an item's place failed.
    pub fn failed_at_door(
        &mut self,
        vertex: usize,
        meta: &Meta,
        error: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        self.failed_where(vertex, meta, error, tombstone, true)
    }

    fn failed_where(
        &mut self,
        vertex: usize,
        meta: &Meta,
        error: Bound<'_, PyAny>,
        tombstone: bool,
        at_door: bool,
    ) -> PyResult<()> {
        let py = error.py();
        let error = self.located.bind(py).call1((vertex, PyBytes::new(py, meta), error, at_door))?;
        self.error_item(child(meta, vertex), error, tombstone)
    }

    pub fn error_item(&mut self, meta: Meta, error: Bound<'_, PyAny>, tombstone: bool) -> PyResult<()> {
        if self.dead_letter {
            self.enter(self.errors, meta, error, tombstone)
        } else {
            self.told(&meta, error, tombstone)
        }
    }

    pub fn on_error(&self, meta: &Meta, error: Bound<'_, PyAny>, tombstone: bool) -> PyResult<()> {
        let py = error.py();
        self.on_error.bind(py).call1((PyBytes::new(py, meta), error, tombstone)).map(|_| ())
    }
}

/// All results of a flat_map, each checked as it comes: one that never ends is not waited for.
fn listed<'py>(
    vertex: &Vertex,
    results: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let (mut checked, mut size) = (Vec::new(), 0);
    for made in results {
        let made = made?;
        size += reference::checked_size(&made)?;
        if checked.len() == vertex.max_results {
            return Err(reference::beyond(made.py(), "too_many_results", vertex.max_results));
        }
        if size > vertex.max_result_bytes {
            return Err(reference::beyond(made.py(), "too_big_results", vertex.max_result_bytes));
        }
        checked.push(made);
    }
    Ok(checked)
}
