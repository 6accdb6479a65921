//! View: the rows of all tables as one transaction sees them, those below its place; the mirror of
//! `transaction.State`.
//!
//! Keeps: what somebody holds beyond a run gives nothing of another one. Does not: say what is wrong, which
//! `transaction.py` does.

use crate::meta::Meta;
use crate::python::reference;
use crate::state::accumulators::Entries;
use crate::state::buckets::Content;
use crate::state::keyed::Table;
use crate::state::transactions::pending::RowKey;
use crate::state::transactions::rules::{Asked, Tables};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// `transaction.MOST_KEYS` and `transaction.MOST_BYTES`.
const MOST_ROWS: usize = 256;
const MOST_BYTES: usize = 8 << 20;

/// Rows, each with the values that transactions have written, by their numbers.
pub type RowTable = Table<Entries<u32>>;

/// The rows that a run has read, and the value of each; None: nobody below had written it.
pub type Reads = Vec<(RowKey, Option<Py<PyAny>>)>;

/// A row that a run's function has asked for.
pub struct Touched {
    pub row: RowKey,
    pub table: usize,
    pub key: Py<PyAny>,
    pub before: Py<PyAny>,
    pub now: Py<PyAny>,
    /// Has anybody below written it?
    pub is_below: bool,
    pub is_deleted: bool,
    is_written: bool,
}

/// What a run sees, as long as it lasts.
pub struct Run {
    pub rows: RowTable,
    meta: Meta,
    pub touched: Vec<Touched>,
    /// Places of what it has written in `touched`, in the order in which it first did.
    pub written: Vec<usize>,
    /// What it has read where Python calls the functions, in debug mode.
    read: Reads,
    bytes: usize,
}

impl Run {
    pub fn new(rows: RowTable, meta: Meta) -> Self {
        Run { rows, meta, touched: Vec::new(), written: Vec::new(), read: Vec::new(), bytes: 0 }
    }

    /// What it has read; it has ended.
    pub fn read(self) -> Reads {
        let Run { touched, mut read, .. } = self;
        let of = |touched: Touched| (touched.row, touched.is_below.then_some(touched.before));
        read.extend(touched.into_iter().map(of));
        read
    }

    fn write(&mut self, place: usize, now: Py<PyAny>, is_deleted: bool) {
        let touched = &mut self.touched[place];
        (touched.now, touched.is_deleted) = (now, is_deleted);
        if !touched.is_written {
            touched.is_written = true;
            self.written.push(place);
        }
    }

    fn has_read(&mut self, row: RowKey, value: Option<Py<PyAny>>) {
        match self.read.iter_mut().find(|(known, _)| *known == row) {
            Some(known) => known.1 = value, // in debug mode each function runs twice
            None => self.read.push((row, value)),
        }
    }
}

#[pyclass]
pub struct View {
    /// `stored.Reading.accumulator`.
    pub decoded: Py<PyAny>,
    pub tables: Tables,
    /// `failure.called`.
    pub called: Py<PyAny>,
    pub run: Option<Run>,
}

#[pymethods]
impl View {
    fn __getitem__<'py>(&mut self, row: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let place = self.place(row)?;
        Ok(self.running()?.touched[place].now.bind(row.py()).clone())
    }

    fn __setitem__(&mut self, row: &Bound<'_, PyAny>, value: Bound<'_, PyAny>) -> PyResult<()> {
        let size = reference::checked_size(&value)?;
        let run = self.running()?;
        run.bytes += size;
        if run.bytes > MOST_BYTES {
            return Err(mistake(row.py(), "too_many_bytes", ()));
        }
        let place = self.place(row)?;
        self.running()?.write(place, value.unbind(), false);
        Ok(())
    }

    fn __delitem__(&mut self, row: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, place) = (row.py(), self.place(row)?);
        let table = self.running()?.touched[place].table;
        let initial = self.called.bind(py).call1((self.tables.initial(table),))?;
        self.running()?.write(place, initial.unbind(), true);
        Ok(())
    }

    fn __contains__(&self, row: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(mistake(row.py(), "looked_for", ()))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Err(mistake(py, "gone_through", ()))
    }

    /// `transaction.Read`: ((table, key), other) -> the value of a row, or the other if nobody has written it.
    fn __call__<'py>(
        &mut self,
        row: &Bound<'py, PyAny>,
        other: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = row.py();
        let row = RowKey::from_vec(reference::encoded(row)?);
        let run = self.run.as_mut().ok_or_else(ended)?;
        let value = below(py, &mut run.rows, &self.decoded, &row, &run.meta)?;
        run.has_read(row, value.as_ref().map(|value| value.clone().unbind()));
        Ok(value.unwrap_or(other))
    }
}

impl View {
    /// Once, before any is made: Python's messages call it as they call the class that it mirrors.
    pub fn begin(py: Python<'_>) -> PyResult<()> {
        py.get_type::<View>().setattr("__name__", "State")
    }

    /// One for other runs.
    pub fn another(&self, py: Python<'_>) -> Self {
        let (decoded, called) = (self.decoded.clone_ref(py), self.called.clone_ref(py));
        View { decoded, tables: self.tables.another(py), called, run: None }
    }

    fn running(&mut self) -> PyResult<&mut Run> {
        self.run.as_mut().ok_or_else(ended)
    }

    /// The place of a row in `touched`.
    fn place(&mut self, row: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = row.py();
        let run = self.run.as_mut().ok_or_else(ended)?;
        let Some(asked) = self.tables.asked(row)? else { return Err(mistake(py, "no_row", (row,))) };
        if let Some(place) = run.touched.iter().position(|touched| touched.row == asked.encoded) {
            return Ok(place);
        }
        let Asked { table, name, key, encoded: row } = asked;
        if run.touched.len() == MOST_ROWS {
            return Err(mistake(py, "too_many_rows", (name, key)));
        }
        let Some(table) = table else { return Err(mistake(py, "no_table", (name, self.tables.names(py)?))) };
        let below = below(py, &mut run.rows, &self.decoded, &row, &run.meta)?;
        let is_below = below.is_some();
        let before = match below {
            Some(value) => value,
            None => self.called.bind(py).call1((self.tables.initial(table),))?,
        };
        let (key, before, now) = (key.unbind(), before.clone().unbind(), before.unbind());
        run.touched.push(Touched {
            row,
            table,
            key,
            before,
            now,
            is_below,
            is_deleted: false,
            is_written: false,
        });
        Ok(run.touched.len() - 1)
    }
}

/// The value of a row below a place; None if nobody there has written it.
pub fn below<'py>(
    py: Python<'py>,
    rows: &mut RowTable,
    decoded: &Py<PyAny>,
    row: &[u8],
    meta: &[u8],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(at) = rows.find(row) else { return Ok(None) };
    let entries = &mut rows.at(at).content;
    match entries.below(meta) {
        0 => Ok(None),
        count => entries.accumulator(py, decoded, count - 1),
    }
}

fn ended() -> PyErr {
    PyRuntimeError::new_err("rows of a transaction are there until it ends")
}

/// What `transaction.py` says of a mistake.
fn mistake<'py>(py: Python<'py>, name: &str, given: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = py
        .import("flamestream.model.tables.transaction")
        .and_then(|module| module.getattr(name))
        .and_then(|said| said.call1(given));
    made.map_or_else(|error| error, PyErr::from_value)
}
