//! States: what the keyed vertices of a graph have, made as `core/dataflow/native.py` describes them.
//!
//! Does not: work on items (changes.rs, flow_rows.rs), or store and restore (snapshots.rs).

use crate::flow::description::{optional, required};
use crate::flow::vertex::Kind;
use crate::payload::attribute::Attribute;
use crate::payload::plans;
use crate::state::accumulators::Accumulators;
use crate::state::folded::Folded;
use crate::state::grouping::Grouping;
use crate::state::keyed::Table;
use crate::state::ready;
use crate::state::reduce::{Fold, Reduce};
use crate::state::shards::{self, Folding, Panes, Shards, Steps};
use crate::state::transactions::{Decider, Functions, Patience, Tables, Transactions, View};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::collections::HashMap;

pub enum State {
    Grouping(Grouping),
    Reduce(Reduce),
    Folded(Box<Folded>),
    Shards(Box<Shards>),
    Transactions(Box<Transactions>),
}

/// The same expression for the table of whatever state it is.
macro_rules! with_table {
    ($state:expr, $table:ident => $what:expr) => {
        match $state {
            $crate::flow::states::State::Grouping(state) => {
                let $table = &mut state.table;
                $what
            }
            $crate::flow::states::State::Reduce(state) => {
                let $table = &mut state.kept.table;
                $what
            }
            $crate::flow::states::State::Folded(state) => {
                let $table = &mut state.table;
                $what
            }
            $crate::flow::states::State::Shards(state) => {
                let $table = &mut state.table;
                $what
            }
            $crate::flow::states::State::Transactions(state) => {
                let $table = &mut state.kept.table;
                $what
            }
        }
    };
}
pub(super) use with_table;

/// The vertex that decides transactions.
pub(super) fn ledger_of(states: &HashMap<usize, State>) -> Option<usize> {
    states.iter().find_map(|(vertex, state)| matches!(state, State::Transactions(_)).then_some(*vertex))
}

pub(super) fn grouping_of(number: usize, described: &Bound<'_, PyDict>) -> PyResult<State> {
    let window = required(described, "window")?.extract(described.py())?;
    Ok(State::Grouping(Grouping { operation: number, table: Table::new(), window }))
}

/// A reduce of ready-made functions, of a windowed program's steps, of transactions, or of any other functions.
pub(super) fn reducing_of(number: usize, described: &Bound<'_, PyDict>) -> PyResult<(Kind, State)> {
    let py = described.py();
    if let Some(deciding) = optional(described, "deciding")? {
        let kept = accumulators_of(number, described)?;
        let deciding = deciding.bind(py).cast()?;
        let decider = decider_of(deciding, &kept.decoded)?;
        let pinned = optional(deciding, "patience")?.map(|pinned| pinned.extract(py)).transpose()?;
        let (most, window) = (required(deciding, "most_runs")?, required(deciding, "window")?);
        let patience = Patience::new(pinned, most.extract(py)?, window.extract(py)?);
        let transactions = Transactions::new(py, kept, decider, patience);
        return Ok((Kind::Reduce, State::Transactions(Box::new(transactions))));
    }
    let reduce = Reduce { kept: accumulators_of(number, described)?, fold: fold_of(described)? };
    Ok(match (optional(described, "ready_combine")?, optional(described, "steps")?) {
        (Some(combine), _) => {
            let folded = folded_of(described, combine.into_bound(py).cast_into()?, reduce)?;
            (Kind::Folded, State::Folded(Box::new(folded)))
        }
        (None, Some(steps)) => {
            (Kind::Reduce, State::Shards(Box::new(shards_of(steps.bind(py).cast()?, reduce)?)))
        }
        (None, None) => (Kind::Reduce, State::Reduce(reduce)),
    })
}

fn accumulators_of<T>(number: usize, described: &Bound<'_, PyDict>) -> PyResult<Accumulators<T>> {
    Ok(Accumulators {
        operation: number,
        table: Table::new(),
        decoded: required(described, "decoded")?,
        delta_state: required(described, "delta_state")?,
    })
}

fn fold_of(described: &Bound<'_, PyDict>) -> PyResult<Fold> {
    let self_checked: Vec<Bound<'_, PyAny>> = required(described, "self_checked")?.extract(described.py())?;
    Ok(Fold {
        initial: required(described, "initial")?,
        combine: required(described, "combine")?,
        emit: optional(described, "emit")?,
        users_initial: required(described, "users_initial")?,
        users_combine: required(described, "users_combine")?,
        users_emit: optional(described, "users_emit")?,
        nothing: required(described, "nothing")?,
        self_checked: self_checked.iter().map(|class| class.as_ptr() as usize).collect(),
    })
}

fn folded_of(described: &Bound<'_, PyDict>, combine: Bound<'_, PyTuple>, reduce: Reduce) -> PyResult<Folded> {
    let emit = optional(described, "ready_emit")?
        .map(|emit| emit.into_bound(described.py()).cast_into())
        .transpose()?;
    let Reduce { kept: Accumulators { operation, decoded, delta_state, .. }, fold } = reduce;
    Ok(Folded {
        operation,
        table: Table::new(),
        combine: ready::combine(&combine)?,
        emit: ready::emit(emit)?,
        fold,
        decoded,
        delta_state,
        error_type: required(described, "error_type")?,
    })
}

/// `ledger.Deciding`, as core/dataflow/native.py describes it.
fn decider_of(described: &Bound<'_, PyDict>, decoded: &Py<PyAny>) -> PyResult<Decider> {
    let py = described.py();
    let tables = Tables::new(required(described, "table")?, required(described, "rules")?.extract(py)?)?;
    let (called, decoded) = (required(described, "called")?, decoded.clone_ref(py));
    let view = Py::new(py, View { decoded, tables, called, run: None })?;
    let functions = optional(described, "functions")?;
    let functions = functions.map(|users| functions_of(described, users.extract(py)?)).transpose()?;
    Ok(Decider::new(view, required(described, "decide")?, functions))
}

fn functions_of(described: &Bound<'_, PyDict>, users: Vec<Py<PyAny>>) -> PyResult<Functions> {
    let py = described.py();
    let plan = |name: &str| {
        let tag = required(described, name)?.extract(py)?;
        plans::of_tag(py, tag).ok_or_else(|| PyValueError::new_err(format!("{name} is no class of payloads")))
    };
    Ok(Functions {
        users,
        refused: required(described, "refused")?,
        number: Attribute::new(py, "number"),
        item: Attribute::new(py, "item"),
        write: plan("write")?,
        decision: plan("decision")?,
        aborted: plan("aborted")?,
        check: required(described, "check")?,
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
        inputs: shards::inputs(required(described, "inputs")?.bind(py))?,
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
    let Reduce { kept: Accumulators { operation, decoded, delta_state, .. }, fold } = reduce;
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
