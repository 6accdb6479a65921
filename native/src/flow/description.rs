//! Description: a graph as `core/dataflow/native.py` says what it is made of, a dict for each vertex.

use crate::flow::states::{grouping_of, reducing_of, State};
use crate::flow::vertex::{Kind, Others, RowKey, Vertex};
use crate::payload::expression::Expression;
use crate::payload::field::field;
use crate::state::transactions::Part;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::HashMap;

/// The vertices, and what state those have that have any.
pub(super) fn graph_of(described: &Bound<'_, PyList>) -> PyResult<(Vec<Vertex>, HashMap<usize, State>)> {
    let (mut vertices, mut states) = (Vec::new(), HashMap::new());
    for (number, described) in described.iter().enumerate() {
        let (vertex, state) = vertex_of(number, described.cast()?)?;
        vertices.push(vertex);
        if let Some(state) = state {
            states.insert(number, state);
        }
    }
    Ok((vertices, states))
}

fn vertex_of(number: usize, described: &Bound<'_, PyDict>) -> PyResult<(Vertex, Option<State>)> {
    let py = described.py();
    let (kind, state) = kind_of(number, described)?;
    let vertex = Vertex {
        sharded: matches!(state, Some(State::Shards(_))),
        kind,
        outputs: required(described, "outputs")?.extract(py)?,
        function: optional(described, "function")?,
        max_results: required(described, "max_results")?.extract(py)?,
        max_result_bytes: required(described, "max_result_bytes")?.extract(py)?,
        users: optional(described, "users")?,
        expression: expression_of(described, "expression")?,
        others: optional(described, "others")?.map(|others| others_of(others.bind(py))).transpose()?,
        part: optional(described, "part")?.map(|part| Part::described(part.bind(py).cast()?)).transpose()?,
        routed: required(described, "routed")?.extract(py)?,
        key: optional(described, "key")?,
        key_expression: expression_of(described, "key_expression")?,
        users_key: required(described, "users_key")?,
        balance: optional(described, "balance")?,
        users_balance: optional(described, "users_balance")?,
        row_key: row_key_of(described)?,
        batch: optional(described, "batch")?,
        pass: 0,
    };
    Ok((vertex, state))
}

fn kind_of(number: usize, described: &Bound<'_, PyDict>) -> PyResult<(Kind, Option<State>)> {
    let py = described.py();
    let name: String = required(described, "kind")?.extract(py)?;
    let kind = match name.as_str() {
        "source" | "merge" => Kind::Forward,
        "map" => Kind::Map,
        "flat_map" => Kind::FlatMap,
        "filter" => Kind::Filter,
        "arrival" => Kind::Arrival,
        "loop" => Kind::Loop {
            limit: required(described, "limit")?.extract(py)?,
            too_often: required(described, "too_often")?,
        },
        "grouping" => return Ok((Kind::Grouping, Some(grouping_of(number, described)?))),
        "reduce" => {
            let (kind, state) = reducing_of(number, described)?;
            return Ok((kind, Some(state)));
        }
        "sink" => Kind::Sink,
        other => return Err(PyValueError::new_err(format!("unknown kind {other}"))),
    };
    Ok((kind, None))
}

/// (whether an item is its own result, classes of which it is not)
fn others_of(described: &Bound<'_, PyAny>) -> PyResult<Others> {
    let (itself, classes): (bool, Vec<Bound<'_, PyAny>>) = described.extract()?;
    Ok(Others { itself, classes: classes.iter().map(|class| class.as_ptr() as usize).collect() })
}

/// True: the item itself; an expression, which may be a field alone; or nothing.
fn row_key_of(described: &Bound<'_, PyDict>) -> PyResult<Option<RowKey>> {
    let Some(key) = optional(described, "ready_key")? else { return Ok(None) };
    Ok(Some(match key.bind(described.py()).cast::<PyTuple>() {
        Err(_) => RowKey::Whole,
        Ok(key) => match field(key) {
            Ok(field) => RowKey::Field(field),
            Err(_) => RowKey::Made(Expression::described(key)?),
        },
    }))
}

fn expression_of(described: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Expression>> {
    optional(described, name)?
        .map(|expression| Expression::described(expression.bind(described.py())))
        .transpose()
}

pub(super) fn optional(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    Ok(dict.get_item(name)?.filter(|value| !value.is_none()).map(Bound::unbind))
}

pub(super) fn required(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<Py<PyAny>> {
    optional(dict, name)?.ok_or_else(|| PyValueError::new_err(format!("a vertex without {name}")))
}
