//! Stages: what vectorised functions make of all items that are at hand, asked before the first of them
//! begins its way.
//!
//! Functions are pure, so when they are called changes nothing: each vectorised function that items come to
//! before any door is asked about all of them together, and its results go to the next such function as they
//! are, as columns. Then each item takes its way alone, in the order of metas as ever, and finds at each of
//! those vertices what was made of it. Ordinary functions in front of vectorised ones are called ahead too.
//!
//! Keeps: metas, the order of everything, and error items, item by item. Does not: go through doors; what
//! comes out of state begins stages of a later pass (passes.rs), what comes out of a loop or from another
//! worker stages of its own.

use crate::flow::answers::{Answer, Fault, Items};
use crate::flow::items::Payload;
use crate::flow::outcomes::Outcome;
use crate::flow::outlook::Outlook;
use crate::flow::vertex::Kind;
use crate::flow::Flow;
use crate::meta::{child, Meta};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::collections::HashMap;

/// The results of a vertex for a batch, and of those behind it for these.
pub struct Stage {
    vertex: usize,
    ends: Vec<usize>,
    faults: HashMap<usize, Fault>,
    /// All results; none if only `next` needs them.
    payloads: Vec<Payload>,
    next: Vec<Stage>,
}

/// The place of one item's, or one result's, own results.
#[derive(Clone, Copy)]
struct Place<'a> {
    stages: &'a [Stage],
    at: usize,
}

/// Items that enter one vertex, and the stages that they begin.
struct Root {
    vertex: usize,
    stages: Vec<Stage>,
}

/// Results that were made ahead, by the number of an item in its batch.
#[derive(Default)]
pub struct Ahead {
    roots: Vec<Root>,
    places: Vec<Option<(usize, usize)>>,
}

impl Ahead {
    pub fn has(&self, number: usize) -> bool {
        self.places.get(number).is_some_and(Option::is_some)
    }
}

impl Flow {
    // --- asking --------------------------------------------------------------------------------------------

    /// Make results of items before the first of them begins, by their numbers: of those whose vertex and
    /// payload are given.
    pub(super) fn ahead<'a>(
        &self,
        py: Python<'_>,
        items: impl Iterator<Item = Option<(usize, &'a Payload)>>,
    ) -> PyResult<Ahead> {
        let mut ahead = Ahead::default();
        if self.outlooks.is_none() {
            return Ok(ahead);
        }
        let mut payloads: Vec<Vec<Bound<'_, PyAny>>> = Vec::new();
        for item in items {
            let Some((vertex, payload)) = item.filter(|(vertex, _)| self.begins(*vertex)) else {
                ahead.places.push(None);
                continue;
            };
            let root = ahead.roots.iter().position(|root| root.vertex == vertex).unwrap_or_else(|| {
                ahead.roots.push(Root { vertex, stages: Vec::new() });
                payloads.push(Vec::new());
                payloads.len() - 1
            });
            ahead.places.push(Some((root, payloads[root].len())));
            payloads[root].push(payload.object(py)?);
        }
        for (root, payloads) in ahead.roots.iter_mut().zip(payloads) {
            let items = Items::Payloads(payloads);
            root.stages = if self.outlook(root.vertex).worked {
                vec![self.stage(py, root.vertex, &items)?]
            } else {
                self.next(py, root.vertex, &items)?
            };
        }
        Ok(ahead)
    }

    fn outlook(&self, vertex: usize) -> &Outlook {
        &self.outlooks.as_ref().expect("something is asked about batches")[vertex]
    }

    /// Is this vertex, or one that it leads to, asked about batches?
    pub(super) fn has_outlook(&self, vertex: usize) -> bool {
        let outlook = self.outlook(vertex);
        outlook.worked || matches!(self.vertices[vertex].kind, Kind::Forward) && !outlook.next.is_empty()
    }

    /// Is anything asked about items at this vertex before they go through a door?
    fn begins(&self, vertex: usize) -> bool {
        let (this, outlook) = (&self.vertices[vertex], self.outlook(vertex));
        this.pass <= self.pass
            && (outlook.worked
                || matches!(this.kind, Kind::Forward) && self.goes_on(outlook).next().is_some())
    }

    /// The next vertices that are worked on in this pass.
    fn goes_on<'a>(&'a self, outlook: &'a Outlook) -> impl Iterator<Item = usize> + 'a {
        outlook.next.iter().copied().filter(|next| self.vertices[*next].pass <= self.pass)
    }

    fn next<'py>(&self, py: Python<'py>, vertex: usize, items: &Items<'py>) -> PyResult<Vec<Stage>> {
        if items.len() == 0 {
            return Ok(Vec::new());
        }
        self.goes_on(self.outlook(vertex)).map(|next| self.stage(py, next, items)).collect()
    }

    fn stage<'py>(&self, py: Python<'py>, vertex: usize, items: &Items<'py>) -> PyResult<Stage> {
        let Answer { ends, faults, made } = if self.vertices[vertex].batch.is_some() {
            self.ask(py, vertex, items)?
        } else {
            self.one_by_one(vertex, items)?
        };
        let (next, outlook) = (self.next(py, vertex, &made)?, self.outlook(vertex));
        let needed = made.len() > 0 && (outlook.elsewhere || next.len() < outlook.next.len());
        Ok(Stage { vertex, ends, faults, payloads: if needed { made.payloads()? } else { Vec::new() }, next })
    }

    /// Ask a function about a batch: by one call, or if that fails by one for each half, down to the item at
    /// fault.
    fn ask<'py>(&self, py: Python<'py>, vertex: usize, items: &Items<'py>) -> PyResult<Answer<'py>> {
        let function = self.vertices[vertex].batch.as_ref().expect("chosen by it").bind(py);
        match function.call1((items.given(py)?,)).and_then(|said| Answer::of(&said, items)) {
            Ok(answer) => Ok(answer),
            Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
            Err(error) if items.len() == 1 || error.value(py).hasattr("of_all")? => {
                Answer::failed(py, items, &error)
            }
            Err(_) => {
                let half = items.len() / 2;
                self.ask(py, vertex, &items.part(0, half)?)?.joined(self.ask(
                    py,
                    vertex,
                    &items.part(half, items.len() - half)?,
                )?)
            }
        }
    }

    /// Ask an ordinary function about each item.
    fn one_by_one<'py>(&self, vertex: usize, items: &Items<'py>) -> PyResult<Answer<'py>> {
        let (mut ends, mut faults, mut made) = (vec![0], HashMap::new(), Vec::new());
        for (number, payload) in items.objects()?.into_iter().enumerate() {
            match self.outcome(vertex, &payload) {
                Outcome::Passed => made.push(payload),
                Outcome::One(result) => made.push(result),
                Outcome::Nothing => {}
                Outcome::Several(mut results) => made.append(&mut results),
                Outcome::Error(error) => _ = faults.insert(number, Fault::Error(error.unbind())),
                Outcome::Raised(error) => _ = faults.insert(number, Fault::Raised(error, payload.unbind())),
            }
            ends.push(made.len());
        }
        Ok(Answer { ends, faults, made: Items::Payloads(made) })
    }

    // --- going on ------------------------------------------------------------------------------------------

    /// Item `number` of a batch enters its vertex.
    pub(super) fn go_ahead(
        &mut self,
        py: Python<'_>,
        ahead: &Ahead,
        number: usize,
        meta: Meta,
        payload: Payload,
        tombstone: bool,
    ) -> PyResult<()> {
        let (root, at) = ahead.places[number].expect("`has` was asked");
        let Root { vertex, stages } = &ahead.roots[root];
        if self.outlook(*vertex).worked {
            return self.found(py, &stages[0], at, &meta, tombstone);
        }
        self.go_on(py, *vertex, meta, Some(&payload), Place { stages, at }, tombstone)
    }

    /// Take an item that alone enters a vertex which is asked about batches.
    pub(super) fn asked_alone(
        &mut self,
        vertex: usize,
        meta: Meta,
        payload: Bound<'_, PyAny>,
        tombstone: bool,
    ) -> PyResult<()> {
        let py = payload.py();
        let stage = self.stage(py, vertex, &Items::Payloads(vec![payload]))?;
        self.found(py, &stage, 0, &meta, tombstone)
    }

    /// Lead on what was made of item `at`.
    fn found(
        &mut self,
        py: Python<'_>,
        stage: &Stage,
        at: usize,
        meta: &Meta,
        tombstone: bool,
    ) -> PyResult<()> {
        match stage.faults.get(&at) {
            Some(Fault::Raised(error, payload)) => {
                return self.raised(stage.vertex, meta, error.clone_ref(py), payload.bind(py), tombstone)
            }
            Some(Fault::Error(error)) => {
                return self.failed(stage.vertex, meta, error.bind(py).clone(), tombstone)
            }
            None => {}
        }
        let several = matches!(self.vertices[stage.vertex].kind, Kind::FlatMap);
        for (index, result) in (stage.ends[at]..stage.ends[at + 1]).enumerate() {
            let meta = if several { child(meta, index) } else { meta.clone() };
            self.go_on(
                py,
                stage.vertex,
                meta,
                stage.payloads.get(result),
                Place { stages: &stage.next, at: result },
                tombstone,
            )?;
        }
        Ok(())
    }

    /// Along all edges out of `vertex`.
    fn go_on(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        meta: Meta,
        payload: Option<&Payload>,
        place: Place<'_>,
        tombstone: bool,
    ) -> PyResult<()> {
        self.led_on[vertex] += 1;
        let count = self.vertices[vertex].outputs.len();
        if count == 1 {
            let output = self.vertices[vertex].outputs[0];
            return self.goes_into(py, output, meta, payload, place, tombstone);
        }
        for edge in 0..count {
            let output = self.vertices[vertex].outputs[edge];
            self.goes_into(py, output, child(&meta, edge), payload, place, tombstone)?;
        }
        Ok(())
    }

    fn goes_into(
        &mut self,
        py: Python<'_>,
        vertex: usize,
        meta: Meta,
        payload: Option<&Payload>,
        place: Place<'_>,
        tombstone: bool,
    ) -> PyResult<()> {
        let this = &self.vertices[vertex];
        if !this.routed && this.pass <= self.pass {
            if let Some(stage) = place.stages.iter().find(|stage| stage.vertex == vertex) {
                return self.found(py, stage, place.at, &meta, tombstone);
            }
            if matches!(this.kind, Kind::Forward) {
                return self.go_on(py, vertex, meta, payload, place, tombstone);
            }
        }
        match payload.expect("kept, since not only functions over batches follow") {
            Payload::Row(row) => self.row_enters(py, vertex, meta, row.bytes(), Some(row), tombstone),
            Payload::Object(object) => self.enter(vertex, meta, object.bind(py).clone(), tombstone),
        }
    }
}
