//! Ready-made functions over rows: the mirror of `model/ready.py`. What is not an everyday case gives None,
//! and the Python function is called.

use crate::payload::encoding;
use crate::payload::expression::Expression;
use crate::payload::plans::{Plan, TUPLE_TAG};
use crate::payload::row::{fields, Bounds};
use crate::payload::vector;
use crate::python::reference;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::cell::Cell;

/// A field's name, and its number in the class that was seen last.
pub struct Field {
    name: String,
    known: Cell<(*const Plan, usize)>,
}

impl Field {
    fn new(name: String) -> Self {
        Field { name, known: Cell::new((std::ptr::null(), 0)) }
    }

    fn number(&self, py: Python<'_>, plan: &'static Plan) -> Option<usize> {
        let (last, number) = self.known.get();
        if std::ptr::eq(last, plan) {
            return Some(number);
        }
        let is_it = |field: &Py<PyString>| field.bind(py).to_str().is_ok_and(|name| name == self.name);
        let number = plan.fields.iter().position(is_it)?;
        self.known.set((plan, number));
        Some(number)
    }

    /// The encoding of this field, alone.
    pub fn of<'a>(&self, py: Python<'_>, row: &'a [u8]) -> Option<&'a [u8]> {
        let (plan, bounds) = fields(py, row, |plan| self.number(py, plan).map_or(0, |number| number + 1))?;
        let number = self.number(py, plan)?;
        row.get(*bounds.get(number)? as usize..*bounds.get(number + 1)? as usize)
    }
}

/// A row whose fields were found.
pub struct Found<'a> {
    row: &'a [u8],
    plan: &'static Plan,
    bounds: Bounds,
}

impl<'a> Found<'a> {
    pub fn all(py: Python<'_>, row: &'a [u8]) -> Option<Self> {
        let (plan, bounds) = fields(py, row, |plan| plan.fields.len())?;
        Some(Found { row, plan, bounds })
    }

    fn field(&self, py: Python<'_>, field: &Field) -> Option<&'a [u8]> {
        let number = field.number(py, self.plan)?;
        Some(&self.row[self.bounds[number] as usize..self.bounds[number + 1] as usize])
    }
}

/// An accumulator that needs no Python object. A list's values stand in its bucket, one behind the other.
#[derive(Clone, Copy, PartialEq)]
pub enum Known {
    List { count: usize, end: usize },
    Int(i128),
    Float(f64),
}

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

fn in_range(value: i128) -> Option<Known> {
    (i64::MIN as i128..=u64::MAX as i128).contains(&value).then_some(Known::Int(value))
}

fn added(one: Known, other: Known) -> Option<Known> {
    match (one, other) {
        (Known::Int(one), Known::Int(other)) => in_range(one + other),
        (Known::Float(one), Known::Float(other)) => Some(Known::Float(one + other)),
        (Known::Int(one), Known::Float(other)) => Some(Known::Float(one as f64 + other)),
        (Known::Float(one), Known::Int(other)) => Some(Known::Float(one + other as f64)),
        _ => None,
    }
}

/// The number that an encoding is. A truth value counts, as in Python.
pub fn number(encoded: &[u8]) -> Option<Known> {
    let (first, rest) = encoded.split_first()?;
    let unsigned = || rest.iter().fold(0u64, |value, byte| value << 8 | *byte as u64);
    Some(match (first, rest.len()) {
        (0x00..=0x7f, 0) => Known::Int(*first as i128),
        (0xe0..=0xff, 0) => Known::Int(*first as i8 as i128),
        (0xc2, 0) => Known::Int(0),
        (0xc3, 0) => Known::Int(1),
        (0xcc, 1) | (0xcd, 2) | (0xce, 4) | (0xcf, 8) => Known::Int(unsigned() as i128),
        (0xd0, 1) => Known::Int(unsigned() as i8 as i128),
        (0xd1, 2) => Known::Int(unsigned() as i16 as i128),
        (0xd2, 4) => Known::Int(unsigned() as i32 as i128),
        (0xd3, 8) => Known::Int(unsigned() as i64 as i128),
        (0xcb, 8) => Known::Float(f64::from_bits(unsigned())),
        _ => return None,
    })
}

/// The canonical encoding of an accumulator.
pub fn put_known(out: &mut Vec<u8>, known: Known, values: &[u8]) {
    match known {
        Known::List { count, end } => {
            encoding::put_array(out, count + 1);
            encoding::put_unsigned(out, vector::VECTOR_TAG);
            out.extend_from_slice(&values[..end]);
        }
        Known::Int(value) => match i64::try_from(value) {
            Ok(value) => encoding::put_int(out, value),
            Err(_) => encoding::put_unsigned(out, value as u64),
        },
        Known::Float(value) => encoding::put_float(out, value),
    }
}

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

type Described<'py> = Bound<'py, PyTuple>;

fn name_of(described: &Described<'_>) -> PyResult<String> {
    described.get_item(0)?.extract()
}

fn unknown<T>(what: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("{what} is no ready-made function")))
}

/// ("field", name).
pub fn field(described: &Described<'_>) -> PyResult<Field> {
    match name_of(described)?.as_str() {
        "field" => Ok(Field::new(described.get_item(1)?.extract()?)),
        other => unknown(other),
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
