//! Answers: what a function makes of several items at once, as payloads or as columns that Python keeps.

use crate::flow::items::Payload;
use crate::payload::columns;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::HashMap;

/// Items that a function is asked about, or that it made.
pub enum Items<'py> {
    Payloads(Vec<Bound<'py, PyAny>>),
    /// A `columns.Batch`, and how many are in it.
    Columns(Bound<'py, PyAny>, usize),
}

impl<'py> Items<'py> {
    pub fn len(&self) -> usize {
        match self {
            Items::Payloads(payloads) => payloads.len(),
            Items::Columns(_, count) => *count,
        }
    }

    pub fn given(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Items::Payloads(payloads) => Ok(PyList::new(py, payloads)?.into_any()),
            Items::Columns(batch, _) => Ok(batch.clone()),
        }
    }

    pub fn part(&self, first: usize, count: usize) -> PyResult<Self> {
        match self {
            Items::Payloads(payloads) => Ok(Items::Payloads(payloads[first..first + count].to_vec())),
            Items::Columns(batch, _) => {
                Ok(Items::Columns(batch.call_method1("part", (first, count))?, count))
            }
        }
    }

    pub fn joined(self, behind: Self) -> PyResult<Self> {
        match (self, behind) {
            (one, other) if other.len() == 0 => Ok(one),
            (one, other) if one.len() == 0 => Ok(other),
            (Items::Columns(one, first), Items::Columns(other, last)) => {
                Ok(Items::Columns(one.call_method1("joined", (other,))?, first + last))
            }
            (Items::Payloads(mut one), Items::Payloads(mut other)) => {
                one.append(&mut other);
                Ok(Items::Payloads(one))
            }
            _ => unreachable!("one function makes columns of the same kind of items always or never"),
        }
    }

    pub fn objects(&self) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match self {
            Items::Payloads(payloads) => Ok(payloads.clone()),
            Items::Columns(batch, _) => batch.call_method0("payloads")?.extract(),
        }
    }

    pub fn payloads(&self) -> PyResult<Vec<Payload>> {
        match self {
            Items::Payloads(payloads) => {
                Ok(payloads.iter().map(|payload| Payload::Object(payload.clone().unbind())).collect())
            }
            Items::Columns(batch, count) => Ok(columns::rows(&batch.call_method0("described")?, *count)?
                .into_iter()
                .map(Payload::Row)
                .collect()),
        }
    }
}

/// The answer of a function about some items.
pub struct Answer<'py> {
    /// The results of item `i` from end `i` to the next.
    pub ends: Vec<usize>,
    pub faults: HashMap<usize, Fault>,
    pub made: Items<'py>,
}

/// Why an item has no results.
pub enum Fault {
    /// For this payload.
    Raised(PyErr, Py<PyAny>),
    /// Its function gave an error value.
    Error(Py<PyAny>),
}

impl<'py> Answer<'py> {
    pub fn of(said: &Bound<'py, PyAny>, items: &Items<'py>) -> PyResult<Self> {
        let (ends, made): (Bound<'py, PyAny>, Bound<'py, PyAny>) = said.extract()?;
        let ends: Vec<usize> =
            if ends.is_none() { (0..=items.len()).collect() } else { columns::ends(&ends, items.len())? };
        let count = ends[items.len()];
        let made = match items {
            _ if !made.is_none() => Items::Columns(made, count),
            Items::Payloads(payloads) => {
                let stays = ends.windows(2).zip(payloads).filter(|(ends, _)| ends[0] < ends[1]);
                Items::Payloads(stays.map(|(_, payload)| payload.clone()).collect())
            }
            Items::Columns(..) => unreachable!("what is left of columns is columns"),
        };
        Ok(Answer { ends, faults: HashMap::new(), made })
    }

    pub fn failed(py: Python<'py>, items: &Items<'py>, error: &PyErr) -> PyResult<Self> {
        let objects = items.objects()?.into_iter();
        let faults =
            objects.map(|payload| Fault::Raised(error.clone_ref(py), payload.unbind())).enumerate().collect();
        Ok(Answer { ends: vec![0; items.len() + 1], faults, made: Items::Payloads(Vec::new()) })
    }

    pub fn joined(mut self, behind: Self) -> PyResult<Self> {
        let (items, results) = (self.ends.len() - 1, self.made.len());
        self.ends.extend(behind.ends[1..].iter().map(|end| results + end));
        self.faults.extend(behind.faults.into_iter().map(|(item, fault)| (items + item, fault)));
        Ok(Answer { ends: self.ends, faults: self.faults, made: self.made.joined(behind.made)? })
    }
}
