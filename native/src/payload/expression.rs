//! Expressions: functions that are said by operations on fields, evaluated without Python; the mirror of
//! `model/expressions`, described by `core/dataflow/native_expressions.py`.
//!
//! Numbers and truth values are computed here as far as 64 bits and Python agree; all else is done by the
//! objects' own types, through the functions that Python's own signs use. Where anything is refused or fails
//! there is no value: then the Python function is asked, and what it raises is the error (!).

use crate::payload::attribute::Attribute;
use crate::payload::decoding::{self, Reader};
use crate::payload::plans::{self, Plan, MAX_DEPTH};
use crate::python::moments;
use crate::state::ready;
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyTuple};
use pyo3::IntoPyObjectExt;

/// An expression, of an item of this form or that.
pub struct Expression(Node);

/// What an expression is evaluated for.
#[derive(Clone, Copy)]
enum Item<'a, 'py> {
    Object(&'a Bound<'py, PyAny>),
    /// Its encoding.
    Row(Python<'py>, &'a [u8]),
}

enum Node {
    Item,
    Field(Attribute, ready::Field),
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

#[derive(Clone, Copy)]
enum Sign {
    Plus,
    Minus,
    Times,
    Over,
    FloorOver,
    Rest,
    And,
    Or,
    Compare(CompareOp),
}

/// What is done besides calling the function.
#[derive(Clone, Copy)]
enum How {
    Plain,
    /// `str.split`: its parts become a tuple.
    Split,
    /// `.dt.floor`, known here where the zone is UTC.
    Floor,
}

enum Value<'py> {
    Int(i64),
    Float(f64),
    Bool(bool),
    Object(Bound<'py, PyAny>),
}

use Value::{Bool, Float, Int, Object};

/// Whole numbers up to here are floats too.
const EXACT: u64 = 1 << 53;

impl Expression {
    /// Its value for an object; None: Python must be asked.
    pub fn of<'py>(&self, item: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        self.0.value(Item::Object(item))?.object(item.py())
    }

    /// Its value for an encoded payload; None: Python must be asked.
    pub fn of_row<'py>(&self, py: Python<'py>, row: &[u8]) -> Option<Bound<'py, PyAny>> {
        self.0.value(Item::Row(py, row))?.object(py)
    }

    /// Of what native_expressions.py says.
    pub fn described(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        Node::described(described).map(Expression)
    }
}

/// (value,) of a described expression, for a payload or for its encoding; None: Python must be asked. What a
/// graph's vertices do, for tests.
#[pyfunction]
pub fn evaluated<'py>(
    described: &Bound<'py, PyAny>,
    payload: &Bound<'py, PyAny>,
    encoded: bool,
) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
    let expression = Expression::described(described)?;
    let value = if encoded {
        expression.of_row(payload.py(), payload.cast::<PyBytes>()?.as_bytes())
    } else {
        expression.of(payload)
    };
    Ok(value.map(|value| (value,)))
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

    fn field(&self, attribute: &Attribute, field: &ready::Field) -> Option<Bound<'py, PyAny>> {
        match self {
            Item::Object(object) => attribute.of(object).ok(),
            Item::Row(py, row) => decoded(*py, field.of(*py, row)?),
        }
    }
}

fn decoded<'py>(py: Python<'py>, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
    Reader::new(bytes).value(py, MAX_DEPTH).ok()
}

impl<'py> Value<'py> {
    #[inline]
    fn of(object: Bound<'py, PyAny>) -> Self {
        if let Ok(int) = object.cast_exact::<PyInt>() {
            return int.extract().map_or_else(|_| Object(object), Int);
        }
        if let Ok(float) = object.cast_exact::<PyFloat>() {
            return Float(float.value());
        }
        match object.cast_exact::<PyBool>() {
            Ok(truth) => Bool(truth.is_true()),
            Err(_) => Object(object),
        }
    }

    fn object(self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Int(value) => value.into_bound_py_any(py).ok(),
            Float(value) => Some(PyFloat::new(py, value).into_any()),
            Bool(value) => Some(PyBool::new(py, value).to_owned().into_any()),
            Object(object) => Some(object),
        }
    }

    /// As a float, where that is the same number.
    fn exact(&self) -> Option<f64> {
        match self {
            Int(value) if value.unsigned_abs() <= EXACT => Some(*value as f64),
            Float(value) => Some(*value),
            _ => None,
        }
    }
}

impl Node {
    fn value<'py>(&self, item: Item<'_, 'py>) -> Option<Value<'py>> {
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

impl Sign {
    fn of<'py>(self, py: Python<'py>, left: Value<'py>, right: Value<'py>) -> Option<Value<'py>> {
        if let Some(value) = self.known(&left, &right) {
            return Some(value);
        }
        let (left, right) = (left.object(py)?, right.object(py)?);
        let made = match self {
            Sign::Plus => left.add(right),
            Sign::Minus => left.sub(right),
            Sign::Times => left.mul(right),
            Sign::Over => left.div(right),
            Sign::FloorOver => left.floor_div(right),
            Sign::Rest => left.rem(right),
            Sign::Compare(compare) => left.rich_compare(right, compare),
            Sign::And | Sign::Or => return None,
        };
        made.ok().map(Value::of)
    }

    /// Of numbers and truth values, where this gives what Python gives.
    fn known<'py>(self, left: &Value<'py>, right: &Value<'py>) -> Option<Value<'py>> {
        match (self, left, right) {
            (Sign::And, Bool(left), Bool(right)) => Some(Bool(*left && *right)),
            (Sign::Or, Bool(left), Bool(right)) => Some(Bool(*left || *right)),
            (Sign::Compare(compare), Int(left), Int(right)) => Some(Bool(compare.matches(left.cmp(right)))),
            (_, Int(left), Int(right)) if !matches!(self, Sign::Over) => self.of_ints(*left, *right),
            _ => self.of_floats(left.exact()?, right.exact()?),
        }
    }

    fn of_ints<'py>(self, left: i64, right: i64) -> Option<Value<'py>> {
        match self {
            Sign::Plus => left.checked_add(right),
            Sign::Minus => left.checked_sub(right),
            Sign::Times => left.checked_mul(right),
            // Rust's quotient is cut off, Python's rounded down.
            Sign::FloorOver => {
                let rest = left.checked_rem(right)?;
                Some(left / right - i64::from(rest != 0 && (rest < 0) != (right < 0)))
            }
            Sign::Rest => {
                let rest = left.checked_rem(right)?;
                Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
            }
            _ => None,
        }
        .map(Int)
    }

    fn of_floats<'py>(self, left: f64, right: f64) -> Option<Value<'py>> {
        Some(match self {
            Sign::Plus => Float(left + right),
            Sign::Minus => Float(left - right),
            Sign::Times => Float(left * right),
            Sign::Over if right != 0.0 => Float(left / right),
            Sign::Compare(CompareOp::Eq) => Bool(left == right),
            Sign::Compare(CompareOp::Ne) => Bool(left != right),
            Sign::Compare(CompareOp::Lt) => Bool(left < right),
            Sign::Compare(CompareOp::Le) => Bool(left <= right),
            Sign::Compare(CompareOp::Gt) => Bool(left > right),
            Sign::Compare(CompareOp::Ge) => Bool(left >= right),
            _ => return None,
        })
    }
}

impl How {
    fn called<'py>(
        self,
        value: &Bound<'py, PyAny>,
        function: &Bound<'py, PyAny>,
        given: &Bound<'py, PyTuple>,
    ) -> Option<Bound<'py, PyAny>> {
        let py = value.py();
        match self {
            How::Floor => {
                let every: i64 = given.get_item(0).ok()?.extract().ok()?;
                // SAFETY: the value is alive and the GIL is held.
                let floored = unsafe { moments::microseconds(value.as_ptr()) }
                    .and_then(|time| moments::datetime(py, time.div_euclid(every) * every));
                floored.or_else(|| function.call1((value, given.get_item(0).ok()?)).ok())
            }
            How::Split => {
                let parts = value.call_method1(pyo3::intern!(py, "split"), given).ok()?;
                Some(parts.cast_into::<PyList>().ok()?.to_tuple().into_any())
            }
            How::Plain => match given.len() {
                0 => function.call1((value,)).ok(),
                1 => function.call1((value, given.get_item(0).ok()?)).ok(),
                _ => function.call1((value, given.get_item(0).ok()?, given.get_item(1).ok()?)).ok(),
            },
        }
    }
}

// --- as they are described --------------------------------------------------------------------------------------

type Described<'py> = Bound<'py, PyTuple>;

impl Node {
    fn described(described: &Bound<'_, PyAny>) -> PyResult<Node> {
        let all = described.cast::<PyTuple>()?;
        let name: String = all.get_item(0)?.extract()?;
        let at = |place: usize| all.get_item(place);
        let node = |place: usize| Node::described(&at(place)?).map(Box::new);
        Ok(match name.as_str() {
            "item" => Node::Item,
            "field" => Node::Field(attribute(&at(1)?)?, ready::field(all)?),
            "inner" => Node::Inner(node(1)?, attribute(&at(2)?)?),
            "constant" => Node::Constant(at(1)?.unbind()),
            "element" => Node::Element(node(1)?, at(2)?.unbind()),
            "tuple" => Node::Tuple(nodes(all, 1)?),
            "record" => {
                let plan = plans::of_tag(all.py(), at(1)?.extract()?)
                    .ok_or_else(|| PyValueError::new_err("a record of a class that is no payload"))?;
                Node::Record(plan, nodes(all, 2)?)
            }
            "unary" if at(1)?.eq("-")? => Node::Negative(node(2)?),
            "unary" => Node::Not(node(2)?),
            "binary" => Node::Binary(sign(&at(1)?.extract::<String>()?)?, node(2)?, node(3)?),
            "call" => Node::Call(
                how(&at(1)?.extract::<String>()?),
                node(2)?,
                at(3)?.unbind(),
                at(4)?.unbind(),
                at(5)?.cast_into::<PyTuple>()?.unbind(),
            ),
            "when" => {
                let cases: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = at(1)?.extract()?;
                let case = |(case, value): &(Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                    Ok((Node::described(case)?, Node::described(value)?))
                };
                Node::When(cases.iter().map(case).collect::<PyResult<_>>()?, node(2)?)
            }
            other => return Err(PyValueError::new_err(format!("{other} is no node of an expression"))),
        })
    }
}

fn nodes(all: &Described<'_>, from: usize) -> PyResult<Vec<Node>> {
    all.iter().skip(from).map(|each| Node::described(&each)).collect()
}

fn attribute(name: &Bound<'_, PyAny>) -> PyResult<Attribute> {
    Ok(Attribute::new(name.py(), &name.extract::<String>()?))
}

fn sign(sign: &str) -> PyResult<Sign> {
    Ok(match sign {
        "+" => Sign::Plus,
        "-" => Sign::Minus,
        "*" => Sign::Times,
        "/" => Sign::Over,
        "//" => Sign::FloorOver,
        "%" => Sign::Rest,
        "&" => Sign::And,
        "|" => Sign::Or,
        "==" => Sign::Compare(CompareOp::Eq),
        "!=" => Sign::Compare(CompareOp::Ne),
        "<" => Sign::Compare(CompareOp::Lt),
        "<=" => Sign::Compare(CompareOp::Le),
        ">" => Sign::Compare(CompareOp::Gt),
        ">=" => Sign::Compare(CompareOp::Ge),
        other => return Err(PyValueError::new_err(format!("{other} is no sign of an expression"))),
    })
}

fn how(name: &str) -> How {
    match name {
        "split" => How::Split,
        "floor" => How::Floor,
        _ => How::Plain,
    }
}
