//! Rules: the tables of a graph, and which one a row is of.

use crate::payload::encoding::{self, put_str};
use crate::payload::plans::MAX_DEPTH;
use crate::python::reference;
use crate::state::transactions::pending::RowKey;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::sync::Arc;

/// (name, initial, check, the name that its rows are stored by) of a table.
pub type Described<'py> = (Bound<'py, PyString>, Py<PyAny>, Option<Py<PyAny>>, Bound<'py, PyString>);

/// The rules of one table, a `transaction.Rules`.
struct Rules {
    name: Py<PyString>,
    stored: Py<PyString>,
    initial: Py<PyAny>,
    check: Option<Py<PyAny>>,
    /// The beginning of the encoding of each of its rows.
    prefix: Vec<u8>,
}

pub struct Tables {
    rules: Arc<[Rules]>,
    /// `ledger.Table`, whose instances have one name for ever.
    class: Py<PyAny>,
    /// Those that were seen, each with the number of its rules.
    seen: Vec<(Py<PyAny>, usize)>,
    /// Where a row is encoded before it is kept.
    scratch: Vec<u8>,
}

/// Objects of tables that are known again; there is one a table.
const MOST_SEEN: usize = 64;

/// A row that was asked for.
pub struct Asked<'py> {
    /// The number of its table's rules; None: the graph has no such table.
    pub table: Option<usize>,
    pub name: Bound<'py, PyAny>,
    pub key: Bound<'py, PyAny>,
    pub encoded: RowKey,
}

impl Tables {
    pub fn new(class: Py<PyAny>, rules: Vec<Described<'_>>) -> PyResult<Self> {
        let made = |(name, initial, check, stored): Described<'_>| {
            let mut prefix = vec![0x93, 0]; // a tuple of two
            put_str(&mut prefix, stored.to_str()?.as_bytes());
            Ok(Rules { name: name.unbind(), stored: stored.unbind(), initial, check, prefix })
        };
        let rules = rules.into_iter().map(made).collect::<PyResult<Vec<_>>>()?.into();
        Ok(Tables { rules, class, seen: Vec::new(), scratch: Vec::new() })
    }

    pub fn initial(&self, table: usize) -> &Py<PyAny> {
        &self.rules[table].initial
    }

    pub fn name<'py>(&self, py: Python<'py>, table: usize) -> Bound<'py, PyAny> {
        self.rules[table].name.bind(py).clone().into_any()
    }

    /// The check of a table, if it has one.
    pub fn check(&self, py: Python<'_>, table: usize) -> Option<Py<PyAny>> {
        self.rules[table].check.as_ref().map(|check| check.clone_ref(py))
    }

    /// The same for another view.
    pub fn another(&self, py: Python<'_>) -> Self {
        let (rules, class) = (self.rules.clone(), self.class.clone_ref(py));
        Tables { rules, class, seen: Vec::new(), scratch: Vec::new() }
    }

    /// Their names.
    pub fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.rules.iter().map(|rules| rules.name.bind(py)))
    }

    /// The row that `state[table, key]` means, if it means one. Raises PayloadError if its key is no payload.
    pub fn asked<'py>(&mut self, row: &Bound<'py, PyAny>) -> PyResult<Option<Asked<'py>>> {
        let py = row.py();
        let Ok(row) = row.cast_exact::<PyTuple>() else { return Ok(None) };
        if row.len() < 2 {
            return Ok(None);
        }
        let (table, name) = self.table(&row.get_item(0)?)?;
        let key = if row.len() == 2 { row.get_item(1)? } else { row.get_slice(1, row.len()).into_any() };
        if let Some(table) = table {
            self.scratch.clear();
            self.scratch.extend_from_slice(&self.rules[table].prefix);
            // SAFETY: the key is alive, and the GIL is held.
            let put = unsafe { encoding::put_object(py, &mut self.scratch, key.as_ptr(), MAX_DEPTH - 1) };
            if put.is_ok() {
                let encoded = RowKey::from_slice(&self.scratch);
                return Ok(Some(Asked { table: Some(table), name, key, encoded }));
            }
        }
        let stored = table.map(|table| self.rules[table].stored.bind(py).clone().into_any());
        let row = PyTuple::new(py, [stored.as_ref().unwrap_or(&name), &key])?;
        let encoded = reference::encoded(row.as_any())?;
        Ok(Some(Asked { table, name, key, encoded: RowKey::from_vec(encoded) }))
    }

    fn table<'py>(&mut self, given: &Bound<'py, PyAny>) -> PyResult<(Option<usize>, Bound<'py, PyAny>)> {
        let py = given.py();
        if let Some((_, table)) = self.seen.iter().find(|(seen, _)| seen.is(given)) {
            return Ok((Some(*table), self.name(py, *table)));
        }
        let name = if given.is_exact_instance_of::<PyString>() { None } else { given.getattr_opt("name")? };
        let name = name.unwrap_or_else(|| given.clone());
        let Ok(text) = name.cast_exact::<PyString>() else { return Ok((None, name)) };
        let text = text.to_str().ok(); // one that is no UTF-8 names no table
        let table = self.rules.iter().position(|rules| rules.name.bind(py).to_str().ok() == text);
        if let Some(table) = table.filter(|_| given.get_type().is(&self.class)) {
            self.seen.truncate(MOST_SEEN - 1);
            self.seen.push((given.clone().unbind(), table));
        }
        Ok((table, name))
    }
}
