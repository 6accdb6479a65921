//! Calls: what Python asks of a dataflow (`core/dataflow/native.py`, `spark/frames/native.py`).
//!
//! In one file, since a class has one block of methods. Does not: do more than read arguments.

use crate::barrier::Barrier;
use crate::flow::description::graph_of;
use crate::flow::doors::{Given, Numbers, Rows, Taken};
use crate::flow::flow_doors::Held;
use crate::flow::items::entered;
use crate::flow::meter::Meter;
use crate::flow::outgoing::Outgoing;
use crate::flow::outlook::outlooks;
use crate::flow::passes::ALL;
use crate::flow::rounds::Rounds;
use crate::flow::snapshots::{floor_of, floors};
use crate::flow::states::{ledger_of, with_table, State};
use crate::flow::Flow;
use crate::meta::Meta;
use crate::python::reference::{self, Tools};
use crate::state::matching::Matching;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::collections::{HashMap, HashSet};

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
        let (mut vertices, states) = graph_of(vertices)?;
        let outlooks = outlooks(&mut vertices);
        let count = vertices.len();
        Ok(Flow {
            errors: vertices.len() - 1,
            outlooks,
            pass: ALL,
            last_pass: vertices.iter().map(|vertex| vertex.pass).max().unwrap_or(0),
            later: Vec::new(),
            vertices,
            ledger: ledger_of(&states),
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
            meter: Meter::default(),
            led_on: vec![0; count],
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
        self.received(py, cause, vertices, metas, tombstones, payloads)
    }

    /// Is there anything for `run` but new runs?
    #[getter]
    fn has_work(&self) -> bool {
        !self.arrived.is_empty() || !self.waiting.is_empty()
    }

    /// The time of the lowest transaction that is put off; the end of time: there is none.
    #[getter]
    fn undecided(&mut self) -> u64 {
        self.transactions().and_then(|transactions| transactions.undecided()).unwrap_or(u64::MAX)
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
    /// `reached`: below it only transactions that are put off could still change something.
    fn run(
        &mut self,
        py: Python<'_>,
        runs: &Bound<'_, PyList>,
        cuts: &Bound<'_, PyList>,
        reached: &[u8],
    ) -> PyResult<()> {
        self.cuts = floors(cuts)?;
        let reached = floor_of(reached)?;
        if let Some(transactions) = self.transactions() {
            transactions.reached = reached;
        }
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

    /// From now on measure what each slot costs, by every so manieth entrance; with a clock in nanoseconds.
    fn measure(&mut self, every: u32, clocked: bool) {
        self.meter.start(self.slots as usize, self.vertices.len(), every, clocked);
    }

    /// What each slot has cost since the last call, and the key that has most of it.
    fn measured<'py>(&mut self, py: Python<'py>) -> Vec<(u16, u64, Option<Bound<'py, PyBytes>>)> {
        let costs = self.meter.take().into_iter();
        costs.map(|(slot, cost, key)| (slot, cost, key.map(|key| PyBytes::new(py, &key)))).collect()
    }

    /// Of each vertex: how many items it has led on, and what it has cost, since the beginning; how many keys its
    /// state has, and their bytes as snapshots have them.
    fn by_operation(&mut self) -> Vec<(u64, u64, usize, usize)> {
        let mut sizes = |vertex| {
            self.states.get_mut(&vertex).map_or((0, 0), |state| with_table!(state, table => table.size()))
        };
        (0..self.errors)
            .map(|vertex| {
                let (keys, bytes) = sizes(vertex);
                (self.led_on[vertex], self.meter.of(vertex), keys, bytes)
            })
            .collect()
    }

    /// How often transactions were decided: how many, runs, aborted ones, the most contended rows, and does each wait now?
    fn contended<'py>(
        &mut self,
        py: Python<'py>,
        cuts: &Bound<'py, PyList>,
    ) -> PyResult<(u64, u64, u64, Bound<'py, PyTuple>, bool)> {
        let Some(state) = self.transactions() else { return Ok((0, 0, 0, PyTuple::empty(py), false)) };
        state.forget_final(py, &floors(cuts)?, 1)?;
        let its = &state.contention;
        let rows = its.rows().into_iter().map(|(row, count)| (PyBytes::new(py, &row), count));
        let rows = PyTuple::new(py, rows.collect::<Vec<_>>())?;
        Ok((its.decided, its.runs, its.aborted, rows, state.patience.waits()))
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
        self.fold_given(py, to, key, meta, payload, at..count)
    }

    // --- state ---------------------------------------------------------------------------------------------

    /// Begin the rows of a snapshot: `rows` goes through what has changed since the committed cut.
    fn begin_rows(&mut self, operation: usize) -> PyResult<()> {
        with_table!(self.state_mut(operation)?, table => table.begin_rows());
        Ok(())
    }

    /// Rows of the next `count` buckets between two cuts, or None for one that has not changed: `row` makes each of
    /// `(number, slot, key, epoch, is it full, state)`.
    fn rows<'py>(
        &mut self,
        operation: usize,
        count: usize,
        number: u64,
        epoch: u64,
        committed: &[u8],
        cut: &[u8],
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        self.changed_rows(operation, count, (number, epoch), &floor_of(committed)?, &floor_of(cut)?, row)
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
        let (limit, state) = (floor_of(cut)?, self.state_mut(operation)?);
        if let State::Transactions(state) = state {
            state.go_back();
        }
        with_table!(state, table => table.go_back(&limit));
        Ok(())
    }

    fn keep(&mut self, operation: usize, slots: HashSet<u16>) -> PyResult<()> {
        with_table!(self.state_mut(operation)?, table => table.keep(|slot| slots.contains(&slot)));
        Ok(())
    }

    /// Forget these keys, which nothing has touched.
    fn drop(&mut self, operation: usize, keys: HashSet<Vec<u8>>) -> PyResult<()> {
        with_table!(self.state_mut(operation)?, table => keys.iter().for_each(|key| table.drop(key)));
        Ok(())
    }

    /// Take states from `chain.Chain`s, each of which begins with a whole one.
    fn load(&mut self, operation: usize, chains: &Bound<'_, PyList>) -> PyResult<()> {
        self.loaded(operation, chains)
    }

    /// Of the states of these keys a snapshot has nothing.
    fn unstored(&mut self, operation: usize, keys: Vec<Vec<u8>>) -> PyResult<()> {
        with_table!(self.state_mut(operation)?, table => keys.iter().for_each(|key| table.unstored(key)));
        Ok(())
    }

    /// What the state of a key was taken from, as long as nothing has touched it; None if it is not so.
    fn stored<'py>(
        &mut self,
        py: Python<'py>,
        operation: usize,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.restored_from(py, operation, key)
    }

    /// Put about so many more keys of an operation in order. Whether some are left.
    fn order(&mut self, operation: usize, count: usize) -> PyResult<bool> {
        Ok(with_table!(self.state_mut(operation)?, table => table.order(count)))
    }

    /// The least keys behind one that are meant, as many as are wanted, and whether there are more.
    fn page<'py>(
        &mut self,
        py: Python<'py>,
        operation: usize,
        after: &[u8],
        count: usize,
        head: &[u8],
        text: Option<&[u8]>,
    ) -> PyResult<(Vec<Bound<'py, PyBytes>>, bool)> {
        let matching = Matching { head, text };
        Ok(with_table!(self.state_mut(operation)?, table => {
            let (some, more) = table.page(after, count, &matching);
            (some.into_iter().map(|key| PyBytes::new(py, key)).collect(), more)
        }))
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
        self.state_below(py, operation, key, cut)
    }

    /// The same of many keys, encoded.
    fn states_at<'py>(
        &mut self,
        py: Python<'py>,
        operation: usize,
        keys: Vec<Bound<'py, PyBytes>>,
        cut: &[u8],
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let mut out = Vec::new();
        let mut encoded = |key: Bound<'py, PyBytes>| {
            let Some(state) = self.state_below(py, operation, key.as_bytes(), cut)? else { return Ok(None) };
            out.clear();
            reference::append(&state, &mut out)?;
            Ok(Some(PyBytes::new(py, &out)))
        };
        keys.into_iter().map(&mut encoded).collect()
    }
}
