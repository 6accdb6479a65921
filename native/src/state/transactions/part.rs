//! Part: what a stream of transactions' outcomes takes of each result, `(number, Decision)`. The mirror of
//! `ledger.DecidedAs` and `ledger.WritesTo`.

use crate::payload::attribute::Attribute;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

/// The part of a decision that a vertex is about.
pub enum Part {
    /// The result of a function's transactions, of those that were aborted or of the others.
    Result { number: i64, of_aborted: bool, aborted: Attribute, result: Attribute },
    /// What was written to a table.
    Writes { name: Py<PyString>, writes: Attribute, table: Attribute },
}

impl Part {
    /// ("result", number, of aborted ones), or ("writes", name of the table).
    pub fn described(described: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let field = |name: &str| Attribute::new(described.py(), name);
        let kind: String = described.get_item(0)?.extract()?;
        Ok(match kind.as_str() {
            "result" => Part::Result {
                number: described.get_item(1)?.extract()?,
                of_aborted: described.get_item(2)?.extract()?,
                aborted: field("aborted"),
                result: field("result"),
            },
            "writes" => Part::Writes {
                name: described.get_item(1)?.extract()?,
                writes: field("writes"),
                table: field("table"),
            },
            other => return Err(PyValueError::new_err(format!("{other} is no part of a decision"))),
        })
    }

    /// The results that it makes of a transaction's.
    pub fn of<'py>(&self, told: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (number, decision) = (told.get_item(0)?, told.get_item(1)?);
        match self {
            Part::Result { number: its, of_aborted, aborted, result } => {
                let is_its = number.extract::<i64>()? == *its;
                if is_its && aborted.of(&decision)?.is_truthy()? == *of_aborted {
                    Ok(vec![result.of(&decision)?])
                } else {
                    Ok(Vec::new())
                }
            }
            Part::Writes { name, writes, table } => {
                let (name, mut found) = (name.bind(told.py()), Vec::new());
                for write in writes.of(&decision)?.cast::<PyTuple>()?.iter() {
                    if table.of(&write)?.eq(name)? {
                        found.push(write);
                    }
                }
                Ok(found)
            }
        }
    }
}
