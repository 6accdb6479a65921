//! Meter: what each slot and each operation costs. The mirror of `core/dataflow/meter.py`.
//!
//! A pass is a line of stretches: an item enters a slot, what it leads to enters another, and each is left
//! again. Of so many stretches one is timed, drawn evenly, and stands for all of them: two readings of the
//! clock would cost more than many an item, a countdown costs a nanosecond. What lies before the first door is
//! the cost of the vertex that the item was taken up at.
//!
//! Keeps: nothing that is measured changes what is computed. Does not: measure unless it is asked to.

use crate::flow::items::Key;
use std::time::Instant;

/// Bytes of the greatest key that is remembered.
const MOST_KEY: usize = 256;

/// The key that most samples of a slot were of, if one was of most: each other one takes away a vote.
#[derive(Clone, Default)]
struct Frequent {
    key: Key,
    votes: u32,
    samples: u32,
}

#[derive(Default)]
pub struct Meter {
    /// How many stretches one that is timed stands for; 0: nothing is measured.
    every: u32,
    /// Without a clock each entrance costs 1.
    clocked: bool,
    left: u32,
    drawn: u32,
    /// When the stretch that is being timed began.
    began: Option<Instant>,
    at: Door,
    /// The vertex that the item at hand was taken up at.
    origin: usize,
    costs: Vec<u64>,
    /// By vertex, since the beginning.
    by_vertex: Vec<u64>,
    frequent: Vec<Frequent>,
}

/// A slot that an item is in, and the vertex whose door it came through; None: it stands before a door.
pub type Door = Option<(u16, usize)>;

/// A slot, its cost, and the key that has most of it.
pub type Cost = (u16, u64, Option<Key>);

impl Meter {
    pub fn start(&mut self, slots: usize, vertices: usize, every: u32, clocked: bool) {
        *self = Meter {
            every,
            clocked,
            left: every.max(1),
            drawn: 0x9E37_79B9,
            costs: vec![0; slots],
            by_vertex: vec![0; vertices],
            frequent: vec![Frequent::default(); slots],
            ..Meter::default()
        };
    }

    /// An item is taken up at `vertex`, before any door.
    #[inline]
    pub fn take_up(&mut self, vertex: usize) {
        if self.every != 0 && self.clocked {
            self.cross(None);
            self.origin = vertex;
        }
    }

    /// An item enters `slot` through the door of `vertex`. Gives what `leave` is to be told.
    #[inline]
    pub fn enter(&mut self, slot: u16, vertex: usize, key: &[u8]) -> Door {
        if self.every == 0 {
            return None;
        }
        let before = self.at;
        if self.clocked {
            self.cross(Some((slot, vertex)));
        } else {
            self.costs[slot as usize] += 1;
            self.by_vertex[vertex] += 1;
        }
        if !key.is_empty() && (self.began.is_some() || !self.clocked) {
            self.vote(slot, key);
        }
        before
    }

    #[inline]
    pub fn leave(&mut self, before: Door) {
        if self.every != 0 && self.clocked {
            self.cross(before);
        }
    }

    /// A pass is over: what follows is nobody's.
    pub fn end(&mut self) {
        self.began = None;
    }

    #[inline]
    fn cross(&mut self, to: Door) {
        if self.began.is_some() {
            self.count();
        }
        self.at = to;
        self.left -= 1;
        if self.left == 0 {
            self.left = self.draw();
            self.began = Some(Instant::now());
        }
    }

    fn count(&mut self) {
        let Some(began) = self.began.take() else { return };
        let cost = began.elapsed().as_nanos() as u64 * self.every as u64;
        if let Some((slot, _)) = self.at {
            self.costs[slot as usize] += cost;
        }
        self.by_vertex[self.at.map_or(self.origin, |(_, vertex)| vertex)] += cost;
    }

    /// How many stretches later the next is timed: as many in the mean, and never in step with the graph.
    fn draw(&mut self) -> u32 {
        self.drawn ^= self.drawn << 13;
        self.drawn ^= self.drawn >> 17;
        self.drawn ^= self.drawn << 5;
        1 + self.drawn % (2 * self.every - 1)
    }

    fn vote(&mut self, slot: u16, key: &[u8]) {
        let frequent = &mut self.frequent[slot as usize];
        frequent.samples += 1;
        if frequent.votes == 0 && key.len() <= MOST_KEY {
            frequent.key = Key::from_slice(key);
        }
        if frequent.key.as_slice() == key {
            frequent.votes += 1;
        } else {
            frequent.votes = frequent.votes.saturating_sub(1);
        }
    }

    /// What a vertex has cost since the beginning, with all that stands behind it up to the next door.
    pub fn of(&self, vertex: usize) -> u64 {
        self.by_vertex.get(vertex).copied().unwrap_or(0)
    }

    /// What was measured since the last call, of slots that cost anything.
    pub fn take(&mut self) -> Vec<Cost> {
        let mut taken = Vec::new();
        for (slot, cost) in self.costs.iter_mut().enumerate() {
            let frequent = std::mem::take(&mut self.frequent[slot]);
            let cost = std::mem::take(cost);
            if cost > 0 {
                let most = frequent.votes > 0 && frequent.votes >= frequent.samples / 4;
                taken.push((slot as u16, cost, most.then_some(frequent.key)));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::Meter;

    #[test]
    fn without_a_clock_each_entrance_costs_one() {
        let mut meter = Meter::default();
        meter.start(4, 8, 1, false);
        let before = meter.enter(1, 7, b"a");
        let inner = meter.enter(2, 7, b"b");
        meter.leave(inner);
        meter.leave(before);
        meter.enter(1, 7, b"a");
        let costs: Vec<_> = meter.take().into_iter().map(|(slot, cost, _)| (slot, cost)).collect();
        assert_eq!(costs, [(1, 2), (2, 1)]);
        assert_eq!(meter.of(7), 3);
        assert!(meter.take().is_empty());
    }

    #[test]
    fn what_is_inside_another_slot_is_that_ones() {
        let mut meter = Meter::default();
        meter.start(4, 8, 1, true);
        let before = meter.enter(1, 7, b"a");
        let inner = meter.enter(2, 7, b"b");
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 20 {}
        meter.leave(inner);
        meter.leave(before);
        meter.end();
        let costs = meter.take();
        assert!(costs[1].1 >= 20_000_000 && costs[0].1 < costs[1].1);
    }

    #[test]
    fn what_stands_before_a_door_is_of_where_it_was_taken_up() {
        let mut meter = Meter::default();
        meter.start(4, 8, 1, true);
        meter.take_up(2);
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 20 {}
        let before = meter.enter(1, 7, b"a");
        meter.leave(before);
        meter.end();
        assert!(meter.of(2) >= 20_000_000 && meter.of(7) < meter.of(2));
        assert!(meter.take().iter().all(|(_, cost, _)| *cost < 20_000_000), "no slot's cost");
    }

    #[test]
    fn a_key_is_named_that_most_samples_were_of() {
        let mut meter = Meter::default();
        meter.start(1, 8, 1, false);
        for number in 0..100u32 {
            meter.enter(0, 7, if number % 4 == 0 { b"rare" } else { b"hot" });
        }
        assert_eq!(meter.take()[0].2.as_ref().map(|key| key.as_slice()), Some(b"hot".as_slice()));
        for number in 0..100u32 {
            meter.enter(0, 7, &number.to_be_bytes());
        }
        assert_eq!(meter.take()[0].2, None);
    }
}
