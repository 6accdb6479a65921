//! What a graph's vertices are made of, as `core/dataflow/native.py` describes them.

use crate::payload::attribute::Attribute;
use crate::payload::expression::Expression;
use crate::python::reference;
use crate::state::folded::Folded;
use crate::state::grouping::Grouping;
use crate::state::keyed::Table;
use crate::state::ready::{self, Field};
use crate::state::reduce::{Fold, Reduce};
use crate::state::shards::Shards;
use crate::state::steps::{self, Folding, Panes, Steps};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::borrow::Cow;

pub enum Kind {
    Forward,
    Map,
    FlatMap,
    Filter,
    /// Its function is called with the item and the microsecond in which its record arrived.
    Arrival,
    Loop {
        limit: usize,
        too_often: Py<PyAny>,
    },
    Grouping,
    Reduce,
    /// A reduce of ready-made functions.
    Folded,
    Sink,
}

pub struct Vertex {
    pub kind: Kind,
    pub outputs: Vec<usize>,
    pub function: Option<Py<PyAny>>,
    /// The most results, and the most bytes of all of them, that it may make of one item.
    pub max_results: usize,
    pub max_result_bytes: usize,
    pub users: Option<Py<PyAny>>,
    /// The same function without Python, if it is known to be one.
    pub expression: Option<Expression>,
    /// For a flat_map that looks for items of a few classes: what others lead to.
    pub others: Option<Others>,
    /// Its input is routed, by this place.
    pub routed: bool,
    pub key: Option<Py<PyAny>>,
    pub key_expression: Option<Expression>,
    pub users_key: Py<PyAny>,
    pub balance: Option<Py<PyAny>>,
    pub users_balance: Option<Py<PyAny>>,
    /// Is its state a `Shards`, which knows keys?
    pub sharded: bool,
    /// How a row's key is found without decoding it, if it can be.
    pub row_key: Option<RowKey>,
    /// Called with a list of payloads or a `columns.Batch`, instead of `function` with each:
    /// `answers::Answer` reads what it gives.
    pub batch: Option<Py<PyAny>>,
    /// In which pass items are worked on here (outlook.rs).
    pub pass: u8,
}

/// What a function makes of an item of none of these classes: itself alone, or nothing.
pub struct Others {
    classes: Vec<usize>,
    pub itself: bool,
}

impl Others {
    pub fn has(&self, item: &Bound<'_, PyAny>) -> bool {
        !self.classes.contains(&(item.get_type_ptr() as usize))
    }
}

pub enum RowKey {
    Whole,
    Field(Field),
    Made(Expression),
}

impl RowKey {
    /// The encoding of the key of `row`; None if Python must find it.
    pub fn of<'a>(&self, py: Python<'_>, row: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self {
            RowKey::Whole => Some(row.into()),
            RowKey::Field(field) => field.of(py, row).map(Cow::from),
            RowKey::Made(key) => reference::encoded(&key.of_row(py, row)?).ok().map(Cow::from),
        }
    }
}

impl Vertex {
    /// What its function gives for an item, checked by nobody yet.
    pub fn called<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(value) = self.expression.as_ref().and_then(|expression| expression.of(item)) {
            return Ok(value);
        }
        let function =
            self.function.as_ref().expect("the graph's builder gives every operation its functions");
        function.bind(item.py()).call1((item,))
    }

    /// The same of an encoded item, where that needs no Python.
    pub fn called_with_row<'py>(&self, py: Python<'py>, row: &[u8]) -> Option<Bound<'py, PyAny>> {
        if self.routed || self.batch.is_some() {
            return None;
        }
        self.expression.as_ref()?.of_row(py, row)
    }

    /// The key of an item; itself if it has no function for it.
    pub fn key_of<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Some(function) = &self.key else { return Ok(item.clone()) };
        match self.key_expression.as_ref().and_then(|expression| expression.of(item)) {
            Some(key) => Ok(key),
            None => function.bind(item.py()).call1((item,)),
        }
    }

    /// Does it take an item as it came, encoded?
    pub fn takes_rows(&self) -> bool {
        self.row_key.is_some() && matches!(self.kind, Kind::Folded | Kind::Sink)
    }
}

pub enum State {
    Grouping(Grouping),
    Reduce(Reduce),
    Folded(Box<Folded>),
    Shards(Box<Shards>),
}

/// The same expression for the table of whatever state it is.
#[macro_export]
macro_rules! with_table {
    ($state:expr, $table:ident => $what:expr) => {
        match $state {
            $crate::flow::describe::State::Grouping(state) => {
                let $table = &mut state.table;
                $what
            }
            $crate::flow::describe::State::Reduce(state) => {
                let $table = &mut state.table;
                $what
            }
            $crate::flow::describe::State::Folded(state) => {
                let $table = &mut state.table;
                $what
            }
            $crate::flow::describe::State::Shards(state) => {
                let $table = &mut state.table;
                $what
            }
        }
    };
}

pub fn optional(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    Ok(dict.get_item(name)?.filter(|value| !value.is_none()).map(Bound::unbind))
}

pub fn required(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<Py<PyAny>> {
    optional(dict, name)?.ok_or_else(|| PyValueError::new_err(format!("a vertex without {name}")))
}

pub fn vertex_of(number: usize, described: &Bound<'_, PyDict>) -> PyResult<(Vertex, Option<State>)> {
    let py = described.py();
    let name: String = required(described, "kind")?.extract(py)?;
    let mut state = None;
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
        "grouping" => {
            let window = required(described, "window")?.extract(py)?;
            state = Some(State::Grouping(Grouping { operation: number, table: Table::new(), window }));
            Kind::Grouping
        }
        "reduce" => {
            let reduce = reduce_of(number, described)?;
            match (optional(described, "ready_combine")?, optional(described, "steps")?) {
                (Some(combine), _) => {
                    state = Some(State::Folded(Box::new(folded_of(
                        described,
                        combine.into_bound(py).cast_into()?,
                        reduce,
                    )?)));
                    Kind::Folded
                }
                (None, Some(steps)) => {
                    state = Some(State::Shards(Box::new(shards_of(steps.bind(py).cast()?, reduce)?)));
                    Kind::Reduce
                }
                (None, None) => {
                    state = Some(State::Reduce(reduce));
                    Kind::Reduce
                }
            }
        }
        "sink" => Kind::Sink,
        other => return Err(PyValueError::new_err(format!("unknown kind {other}"))),
    };
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

fn reduce_of(number: usize, described: &Bound<'_, PyDict>) -> PyResult<Reduce> {
    let self_checked: Vec<Bound<'_, PyAny>> = required(described, "self_checked")?.extract(described.py())?;
    Ok(Reduce {
        operation: number,
        table: Table::new(),
        decoded: required(described, "decoded")?,
        delta_state: required(described, "delta_state")?,
        fold: Fold {
            initial: required(described, "initial")?,
            combine: required(described, "combine")?,
            emit: optional(described, "emit")?,
            users_initial: required(described, "users_initial")?,
            users_combine: required(described, "users_combine")?,
            users_emit: optional(described, "users_emit")?,
            nothing: required(described, "nothing")?,
            self_checked: self_checked.iter().map(|class| class.as_ptr() as usize).collect(),
        },
    })
}

fn folded_of(described: &Bound<'_, PyDict>, combine: Bound<'_, PyTuple>, reduce: Reduce) -> PyResult<Folded> {
    let emit = optional(described, "ready_emit")?
        .map(|emit| emit.into_bound(described.py()).cast_into())
        .transpose()?;
    Ok(Folded {
        operation: reduce.operation,
        table: Table::new(),
        combine: ready::combine(&combine)?,
        emit: ready::emit(emit)?,
        fold: reduce.fold,
        decoded: reduce.decoded,
        delta_state: reduce.delta_state,
        error_type: required(described, "error_type")?,
    })
}

/// `process.Steps`, as core/dataflow/native.py describes it.
fn shards_of(described: &Bound<'_, PyDict>, reduce: Reduce) -> PyResult<Shards> {
    let py = described.py();
    let class = |name: &str| required(described, name).map(|class| class.as_ptr() as usize);
    let field = |name: &str| Attribute::new(py, name);
    let steps = Steps {
        python: required(described, "python")?,
        program: required(described, "program")?,
        answered: required(described, "answered")?,
        called: required(described, "called")?,
        of_keys: required(described, "of_keys")?.extract(py)?,
        last: Default::default(),
        inputs: steps::inputs(required(described, "inputs")?.bind(py))?,
        panes: optional(described, "panes")?.map(|panes| panes_of(panes.bind(py).cast()?)).transpose()?,
        step: required(described, "step")?.extract(py)?,
        shards: required(described, "shards")?.extract(py)?,
        mark: class("mark")?,
        side: class("side")?,
        dated: class("dated")?,
        late: required(described, "late")?,
        now: required(described, "now")?,
        mark_time: field("time"),
        mark_shard: field("shard"),
        side_number: field("number"),
        side_item: field("item"),
        dated_item: field("item"),
        tag: required(described, "tag")?.extract(py)?,
    };
    let Reduce { operation, fold, decoded, delta_state, .. } = reduce;
    Ok(Shards { operation, table: Table::new(), steps, fold, decoded, delta_state })
}

fn panes_of(described: &Bound<'_, PyDict>) -> PyResult<Panes> {
    let py = described.py();
    let fold: Option<(String, Option<String>)> =
        optional(described, "fold")?.map(|fold| fold.extract(py)).transpose()?;
    let folding = match fold {
        Some((name, None)) if name == "count" => Folding::Count,
        Some((name, Some(field))) if name == "total" => Folding::Total(Attribute::new(py, &field)),
        _ => Folding::Python,
    };
    let number = |name: &str| required(described, name)?.extract::<i64>(py);
    Ok(Panes {
        size: number("size")?,
        every: number("every")?,
        offset: number("offset")?,
        each: required(described, "each")?.extract(py)?,
        folding,
    })
}

fn expression_of(described: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Expression>> {
    optional(described, name)?
        .map(|expression| Expression::described(expression.bind(described.py())))
        .transpose()
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
        Ok(key) => match ready::field(key) {
            Ok(field) => RowKey::Field(field),
            Err(_) => RowKey::Made(Expression::described(key)?),
        },
    }))
}
