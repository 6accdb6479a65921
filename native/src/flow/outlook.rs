//! Outlook: which vertices are worked on for all items at hand, and in which pass. From the graph alone,
//! once.

use crate::flow::vertex::{Kind, Vertex};

/// The outlook from a vertex: what lies behind it, and in which pass that is worked on.
#[derive(Default)]
pub struct Outlook {
    /// It is asked about batches, or leads to one that is: all items at hand are worked on before the first
    /// goes on.
    pub worked: bool,
    /// The next vertices that are worked so, up to the first doors.
    pub next: Vec<usize>,
    /// Do results go anywhere else?
    pub elsewhere: bool,
}

/// The outlook from each vertex, and its pass, which is written down in it. None if nothing is asked about
/// batches in this graph.
pub(super) fn outlooks(vertices: &mut [Vertex]) -> Option<Vec<Outlook>> {
    if !vertices.iter().any(|vertex| vertex.batch.is_some()) {
        return None;
    }
    let mut worked = vec![None; vertices.len()];
    (0..vertices.len()).for_each(|vertex| _ = is_worked(vertices, vertex, &mut worked));
    let outlook = |vertex: usize| {
        let mut outlook = Outlook { worked: worked[vertex] == Some(true), ..Outlook::default() };
        look(vertices, &worked, vertex, &mut outlook);
        outlook
    };
    let outlooks: Vec<Outlook> = (0..vertices.len()).map(outlook).collect();
    passes(vertices, &outlooks).into_iter().zip(vertices).for_each(|(pass, vertex)| vertex.pass = pass);
    Some(outlooks)
}

fn is_worked(vertices: &[Vertex], vertex: usize, known: &mut Vec<Option<bool>>) -> bool {
    if let Some(known) = known[vertex] {
        return known;
    }
    let plain = matches!(vertices[vertex].kind, Kind::Map | Kind::FlatMap | Kind::Filter);
    let worked = vertices[vertex].batch.is_some() || plain && leads(vertices, vertex, known);
    known[vertex] = Some(worked);
    worked
}

fn leads(vertices: &[Vertex], vertex: usize, known: &mut Vec<Option<bool>>) -> bool {
    let comes = |output: &usize| match vertices[*output] {
        Vertex { routed: true, .. } => false,
        Vertex { kind: Kind::Forward, .. } => leads(vertices, *output, known),
        _ => is_worked(vertices, *output, known),
    };
    vertices[vertex].outputs.iter().any(comes)
}

fn look(vertices: &[Vertex], worked: &[Option<bool>], vertex: usize, found: &mut Outlook) {
    for output in &vertices[vertex].outputs {
        match vertices[*output] {
            Vertex { routed: true, .. } => found.elsewhere = true,
            Vertex { kind: Kind::Forward, .. } => look(vertices, worked, *output, found),
            _ if worked[*output] != Some(true) => found.elsewhere = true,
            _ if found.next.contains(output) => {}
            _ => found.next.push(*output),
        }
    }
}

/// In which pass each vertex is worked on: one more behind each way out of state, or through a door, into
/// functions that are asked about batches. All in the first if there is a loop, whose rounds and items take
/// turns.
fn passes(vertices: &[Vertex], outlooks: &[Outlook]) -> Vec<u8> {
    let mut passes = vec![0u8; vertices.len()];
    let mut changed = !vertices.iter().any(|vertex| matches!(vertex.kind, Kind::Loop { .. }));
    while changed {
        changed = false;
        for (number, vertex) in vertices.iter().enumerate() {
            let keyed = matches!(vertex.kind, Kind::Grouping | Kind::Reduce | Kind::Folded);
            for output in &vertex.outputs {
                let next = &vertices[*output];
                let batched = outlooks[*output].worked
                    || matches!(next.kind, Kind::Forward) && !outlooks[*output].next.is_empty();
                let pass = passes[number].saturating_add((batched && (keyed || next.routed)) as u8).min(LAST);
                if passes[*output] < pass {
                    (passes[*output], changed) = (pass, true);
                }
            }
        }
    }
    passes
}

/// The number of the last pass that there can be; no vertex has a greater one.
pub const LAST: u8 = u8::MAX - 1;
