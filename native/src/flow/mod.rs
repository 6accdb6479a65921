//! Dataflow: the mirror of `core/dataflow/dataflow.py`, item by item in the same order, with the same
//! results.
//!
//!     calls -> runs -> entrances -> operations -> outcomes    without state: at once, edge by edge
//!                          |------> changes -> state/         behind a door of this worker
//!                          |------> outgoing                  what another worker owns
//!                          `------> doors                     of a batch: as rows
//!
//! Payloads that no function needs take the same way as rows (flow_rows.rs). Functions over batches are asked
//! ahead of it (stages.rs), pass by pass (passes.rs); what goes round a loop waits (rounds.rs).
//!
//! Keeps: an item and its tombstone take the same way. Does not: know the protocol, which is Python's.

mod answers;
mod calls;
mod changes;
mod description;
mod doors;
mod entrances;
mod errors;
mod flow_doors;
mod flow_rows;
mod incoming;
mod items;
mod meter;
mod operations;
mod outcomes;
mod outgoing;
mod outlook;
mod passes;
mod places;
mod rounds;
mod runs;
mod snapshots;
mod stages;
mod states;
mod vertex;

use crate::barrier::Barrier;
use crate::flow::doors::Rows;
use crate::flow::flow_doors::{Chunk, Held};
use crate::flow::items::Work;
use crate::flow::meter::Meter;
use crate::flow::outgoing::Outgoing;
use crate::flow::outlook::Outlook;
use crate::flow::passes::Step;
use crate::flow::rounds::Rounds;
use crate::flow::states::State;
use crate::flow::vertex::Vertex;
use crate::meta::Floor;
use crate::python::reference::Tools;
use pyo3::prelude::*;
use std::collections::HashMap;

/// The graph on one worker.
#[pyclass(unsendable)]
pub struct Flow {
    vertices: Vec<Vertex>,
    /// None if nothing is asked about batches.
    outlooks: Option<Vec<Outlook>>,
    /// The pass that is under way, the last that there is, and what is put off for later ones.
    pass: u8,
    last_pass: u8,
    later: Vec<Step>,
    states: HashMap<usize, State>,
    /// The vertex that decides transactions.
    ledger: Option<usize>,
    tools: Tools,
    error_type: Py<PyAny>,
    /// `Output.located(vertex, meta, error, at_door) -> error`.
    located: Py<PyAny>,
    slots: u64,
    errors: usize,
    /// Error items go to the slot of a sink.
    dead_letter: bool,
    /// Called as (meta, error, is it a tombstone) with error items that no sink takes.
    on_error: Py<PyAny>,
    /// Called as (meta, number, is it a tombstone) where items came too late; None: nobody counts them.
    on_late: Option<Py<PyAny>>,
    me: u16,
    owners: Vec<u16>,
    /// Who has each slot at vertices whose items do not go to the slot's owner.
    doors: HashMap<usize, Vec<u16>>,
    barriers: HashMap<usize, Py<Barrier>>,
    outgoing: Outgoing,
    cause: u64,
    cuts: Vec<Floor>,
    arrived: Vec<Work>,
    waiting: Vec<Work>,
    others_first: bool,
    rounds: Rounds,
    /// Where a result is written before it is kept.
    scratch: Vec<u8>,
    /// Rows of a batch: what stands at a door becomes one, whoever owns its slot.
    rows: Option<Rows>,
    held: Held,
    chunk: Option<Chunk>,
    meter: Meter,
    /// How many items each vertex has led on, those that were taken back with them; each edge out of it has
    /// that many.
    led_on: Vec<u64>,
}
