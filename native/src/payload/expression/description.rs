//! Description: an expression as nested tuples, which `core/dataflow/native_expressions.py` makes.

use crate::payload::attribute::Attribute;
use crate::payload::expression::calls::How;
use crate::payload::expression::nodes::Node;
use crate::payload::expression::signs::Sign;
use crate::payload::field::field;
use crate::payload::plans;
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

type Described<'py> = Bound<'py, PyTuple>;

impl Node {
    pub(super) fn described(described: &Bound<'_, PyAny>) -> PyResult<Node> {
        let all = described.cast::<PyTuple>()?;
        let name: String = all.get_item(0)?.extract()?;
        let at = |place: usize| all.get_item(place);
        let node = |place: usize| Node::described(&at(place)?).map(Box::new);
        Ok(match name.as_str() {
            "item" => Node::Item,
            "field" => Node::Field(attribute(&at(1)?)?, field(all)?),
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
