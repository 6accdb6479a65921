//! Emit: the accumulator itself, or a record of fields, sizes and states.

use crate::payload::encoding;
use crate::payload::expression::Expression;
use crate::payload::field::{field, Field, Found};
use crate::python::reference;
use crate::state::ready::known::{put_known, Known};
use crate::state::ready::{name_of, unknown, Described};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub enum Part {
    Field(Field),
    Made(Expression),
    Size,
    State,
}

pub enum Emit {
    Accumulator,
    Record { tag: u32, parts: Vec<Part> },
}

impl Emit {
    /// Write the result for `row`; false if Python must make it, with `out` as it was.
    pub fn put(&self, py: Python<'_>, out: &mut Vec<u8>, after: Known, values: &[u8], row: &[u8]) -> bool {
        let start = out.len();
        let done = self.write(py, out, after, values, row).is_some();
        if !done {
            out.truncate(start);
        }
        done
    }

    fn write(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        after: Known,
        values: &[u8],
        row: &[u8],
    ) -> Option<()> {
        let Emit::Record { tag, parts } = self else {
            put_known(out, after, values);
            return Some(());
        };
        let found = Found::all(py, row)?;
        encoding::put_array(out, parts.len() + 1);
        encoding::put_unsigned(out, *tag as u64);
        for part in parts {
            match (part, after) {
                (Part::Field(field), _) => out.extend_from_slice(found.field(py, field)?),
                (Part::Made(made), _) => reference::append(&made.of_row(py, row)?, out).ok()?,
                (Part::State, after) => put_known(out, after, values),
                (Part::Size, Known::List { count, .. }) => encoding::put_unsigned(out, count as u64),
                (Part::Size, _) => return None,
            }
        }
        Some(())
    }
}

/// None, or ("record", tag, parts...), where a part is ("size",), ("state",) or an expression.
pub fn emit(described: Option<Described<'_>>) -> PyResult<Emit> {
    let Some(described) = described else { return Ok(Emit::Accumulator) };
    if name_of(&described)? != "record" {
        return unknown("emit");
    }
    let part = |part: Bound<'_, PyAny>| {
        let part = part.cast_into::<PyTuple>()?;
        match name_of(&part)?.as_str() {
            "size" => Ok(Part::Size),
            "state" => Ok(Part::State),
            "field" => field(&part).map(Part::Field),
            _ => Expression::described(&part).map(Part::Made),
        }
    };
    let parts = described.iter().skip(2).map(part).collect::<PyResult<_>>()?;
    Ok(Emit::Record { tag: described.get_item(1)?.extract()?, parts })
}
