//! Combine: `append`, `count` and `total` of `model/ready.py`.

use crate::payload::encoding;
use crate::payload::field::{Field, Found};
use crate::payload::plans::TUPLE_TAG;
use crate::state::ready::known::{added, in_range, number, Known};
use crate::state::ready::{name_of, unknown, Described};
use pyo3::prelude::*;

pub enum Combine {
    Append(Vec<Field>),
    Count,
    Total(Field),
}

impl Combine {
    /// The accumulator after `row`; `values` are those of the bucket, cut behind `before`.
    pub fn step(
        &self,
        py: Python<'_>,
        values: &mut Vec<u8>,
        before: Option<Known>,
        row: &[u8],
    ) -> Option<Known> {
        match (self, before) {
            (Combine::Append(names), None | Some(Known::List { .. })) => {
                let Some(Known::List { count, end }) = before.or(Some(Known::List { count: 0, end: 0 }))
                else {
                    return None;
                };
                let found = Found::all(py, row)?;
                let parts: smallvec::SmallVec<[&[u8]; 8]> =
                    names.iter().map(|name| found.field(py, name)).collect::<Option<_>>()?;
                // what stands behind is of steps that are folded again, or were undone
                values.truncate(end);
                if parts.len() > 1 {
                    encoding::put_array(values, parts.len() + 1);
                    values.push(TUPLE_TAG as u8);
                }
                parts.iter().for_each(|part| values.extend_from_slice(part));
                Some(Known::List { count: count + 1, end: values.len() })
            }
            (Combine::Count, None) => Some(Known::Int(1)),
            (Combine::Count, Some(Known::Int(count))) => in_range(count + 1),
            (Combine::Total(name), before) => {
                added(before.unwrap_or(Known::Int(0)), number(name.of(py, row)?)?)
            }
            _ => None,
        }
    }
}

/// ("append", names...), ("count",) or ("total", name).
pub fn combine(described: &Described<'_>) -> PyResult<Combine> {
    let names: Vec<Field> =
        described.iter().skip(1).map(|name| name.extract().map(Field::new)).collect::<PyResult<_>>()?;
    match (name_of(described)?.as_str(), names.len()) {
        ("append", 1..) => Ok(Combine::Append(names)),
        ("count", 0) => Ok(Combine::Count),
        ("total", 1) => Ok(Combine::Total(names.into_iter().next().expect("there is one"))),
        (other, _) => unknown(other),
    }
}
