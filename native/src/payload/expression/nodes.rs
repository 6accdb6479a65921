//! Nodes: the tree that an expression is, and its value for an item.

use crate::payload::attribute::Attribute;
use crate::payload::decoding::{self, Reader};
use crate::payload::expression::calls::How;
use crate::payload::expression::signs::Sign;
use crate::payload::expression::values::Value::{self, Bool, Float, Int, Object};
use crate::payload::field::Field;
use crate::payload::plans::{Plan, MAX_DEPTH};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The item that an expression is evaluated for.
#[derive(Clone, Copy)]
pub(super) enum Item<'a, 'py> {
    Object(&'a Bound<'py, PyAny>),
    /// Its encoding.
    Row(Python<'py>, &'a [u8]),
}

pub(super) enum Node {
    Item,
    Field(Attribute, Field),
    Inner(Box<Node>, Attribute),
    Constant(Py<PyAny>),
    Element(Box<Node>, Py<PyAny>),
    Tuple(Vec<Node>),
    Record(&'static Plan, Vec<Node>),
    Negative(Box<Node>),
    Not(Box<Node>),
    Binary(Sign, Box<Node>, Box<Node>),
    Call(How, Box<Node>, Py<PyAny>, Py<PyAny>, Py<PyTuple>),
    When(Vec<(Node, Node)>, Box<Node>),
}

impl<'py> Item<'_, 'py> {
    fn py(&self) -> Python<'py> {
        match self {
            Item::Object(object) => object.py(),
            Item::Row(py, _) => *py,
        }
    }

    fn whole(&self) -> Option<Bound<'py, PyAny>> {
        match self {
            Item::Object(object) => Some((*object).clone()),
            Item::Row(py, row) => decoded(*py, row),
        }
    }

    fn field(&self, attribute: &Attribute, field: &Field) -> Option<Bound<'py, PyAny>> {
        match self {
            Item::Object(object) => attribute.of(object).ok(),
            Item::Row(py, row) => decoded(*py, field.of(*py, row)?),
        }
    }
}

fn decoded<'py>(py: Python<'py>, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
    Reader::new(bytes).value(py, MAX_DEPTH).ok()
}

impl Node {
    pub(super) fn value<'py>(&self, item: Item<'_, 'py>) -> Option<Value<'py>> {
        let py = item.py();
        Some(match self {
            Node::Item => Object(item.whole()?),
            Node::Field(attribute, field) => Value::of(item.field(attribute, field)?),
            Node::Inner(of, attribute) => Value::of(attribute.of(&of.value(item)?.object(py)?).ok()?),
            Node::Constant(value) => Value::of(value.bind(py).clone()),
            Node::Element(of, place) => Value::of(of.value(item)?.object(py)?.get_item(place.bind(py)).ok()?),
            Node::Tuple(members) => Object(PyTuple::new(py, objects(members, item)?).ok()?.into_any()),
            Node::Record(plan, parts) => Object(decoding::made(py, plan, objects(parts, item)?)?),
            Node::Negative(of) => match of.value(item)? {
                Int(value) if value != i64::MIN => Int(-value),
                Float(value) => Float(-value),
                value => Value::of(value.object(py)?.neg().ok()?),
            },
            Node::Not(of) => match of.value(item)? {
                Bool(value) => Bool(!value),
                _ => return None,
            },
            Node::Binary(sign, left, right) => sign.of(py, left.value(item)?, right.value(item)?)?,
            Node::Call(how, of, kind, function, given) => {
                let value = of.value(item)?.object(py)?;
                if !value.get_type().is(kind.bind(py)) {
                    return None;
                }
                Value::of(how.called(&value, function.bind(py), given.bind(py))?)
            }
            Node::When(cases, other) => {
                for (case, value) in cases {
                    match case.value(item)? {
                        Bool(true) => return value.value(item),
                        Bool(false) => {}
                        _ => return None,
                    }
                }
                other.value(item)?
            }
        })
    }
}

fn objects<'py>(nodes: &[Node], item: Item<'_, 'py>) -> Option<Vec<Bound<'py, PyAny>>> {
    nodes.iter().map(|node| node.value(item)?.object(item.py())).collect()
}
