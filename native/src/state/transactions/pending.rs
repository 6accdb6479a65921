//! Pending: the transactions above minimal time in their order, and which of them has touched each row.
//!
//! Each has a number as long as it is there. `V`: a value of a row, a transaction or a result.
//!
//! Does not: know what a transaction does (mod.rs), or which values a row has (accumulators/).

use crate::meta::{time_of, Floor, Meta};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The canonical encoding of a row: the name of its table and its key there.
pub type RowKey = SmallVec<[u8; 32]>;

/// A transaction, with what its last run has read, written and given.
pub struct Transaction<V> {
    pub meta: Meta,
    pub item: V,
    /// Behind its meta its place in the order: versions of one item share a meta for a while (!).
    pub encoded: Box<[u8]>,
    /// The value of each row that it has asked for; None: nobody below had written it.
    pub read: Vec<(RowKey, Option<V>)>,
    /// None for a row that it has deleted.
    pub wrote: Vec<(RowKey, Option<V>)>,
    /// None before its first run.
    pub result: Option<V>,
    pub runs: u32,
    /// The pass in which it has come; of one that waited: or the last of those came whose rows it has read.
    pub since: u64,
}

impl<V> Transaction<V> {
    pub fn new(meta: Meta, item: V, encoded: Box<[u8]>, since: u64) -> Self {
        Transaction { meta, item, encoded, read: Vec::new(), wrote: Vec::new(), result: None, runs: 0, since }
    }

    fn place(&self) -> (&[u8], &[u8]) {
        (&self.meta, &self.encoded)
    }

    pub fn has_written(&self, row: &[u8]) -> bool {
        self.wrote.iter().any(|(other, _)| other[..] == *row)
    }
}

pub struct Pending<V> {
    all: Vec<Option<Box<Transaction<V>>>>,
    free: Vec<u32>,
    /// Their numbers, ascending by place.
    order: Vec<u32>,
    /// Those that have touched a row, in the same order.
    touching: HashMap<RowKey, Vec<u32>>,
    /// Those that have to be looked at again, ascending by place.
    dirty: VecDeque<u32>,
    /// Those that wait until only others of these could still change what they read, ascending by place.
    put_off: VecDeque<u32>,
}

impl<V> Pending<V> {
    pub fn new() -> Self {
        Pending {
            all: Vec::new(),
            free: Vec::new(),
            order: Vec::new(),
            touching: HashMap::new(),
            dirty: VecDeque::new(),
            put_off: VecDeque::new(),
        }
    }

    pub fn at(&self, number: u32) -> &Transaction<V> {
        self.all[number as usize].as_ref().expect("a number is that of a transaction")
    }

    pub fn at_mut(&mut self, number: u32) -> &mut Transaction<V> {
        self.all[number as usize].as_mut().expect("a number is that of a transaction")
    }

    /// The number of a transaction that is put in its place.
    pub fn add(&mut self, one: Transaction<V>) -> u32 {
        let behind = self.order.last().is_none_or(|last| self.at(*last).place() <= one.place());
        let place = if behind {
            self.order.len()
        } else {
            self.order.partition_point(|other| self.at(*other).place() <= one.place())
        };
        let one = Some(Box::new(one));
        let number = match self.free.pop() {
            Some(number) => {
                self.all[number as usize] = one;
                number
            }
            None => {
                self.all.push(one);
                (self.all.len() - 1) as u32
            }
        };
        self.order.insert(place, number);
        number
    }

    /// Take a transaction out of the order, if it is there: `forget` ends it.
    pub fn take_out(&mut self, meta: &[u8], encoded: &[u8]) -> Option<u32> {
        let place = self.order.partition_point(|other| self.at(*other).place() < (meta, encoded));
        let found = self.order.get(place).copied().filter(|found| self.at(*found).place() == (meta, encoded));
        found.inspect(|found| {
            self.order.remove(place);
            self.dirty.retain(|other| other != found);
            self.put_off.retain(|other| other != found);
        })
    }

    /// How many of them there are below a cut.
    pub fn below(&self, cut: &[u8]) -> usize {
        self.order.partition_point(|other| self.at(*other).meta[..] < *cut)
    }

    /// Take the first `count` out of the order: `forget` ends each.
    pub fn take_first(&mut self, count: usize) -> Vec<u32> {
        self.order.drain(..count).collect()
    }

    /// Nobody asks for this one any more, which is out of the order.
    pub fn forget(&mut self, number: u32) {
        let one = self.all[number as usize].take().expect("a transaction is forgotten once");
        for (row, _) in &one.read {
            self.let_go(row, number);
        }
        self.free.push(number);
    }

    pub fn clear(&mut self) {
        *self = Pending::new();
    }

    /// Its last run has read these rows.
    pub fn touch(&mut self, number: u32, now: Vec<(RowKey, Option<V>)>) {
        let before = std::mem::take(&mut self.at_mut(number).read);
        let has = |rows: &[(RowKey, Option<V>)], row: &RowKey| rows.iter().any(|(other, _)| other == row);
        for (row, _) in before.iter().filter(|(row, _)| !has(&now, row)) {
            self.let_go(row, number);
        }
        for (row, _) in now.iter().filter(|(row, _)| !has(&before, row)) {
            let place = self.touching.get(row).map_or(0, |its| {
                its.partition_point(|other| self.at(*other).place() <= self.at(number).place())
            });
            self.touching.entry(row.clone()).or_default().insert(place, number);
        }
        self.at_mut(number).read = now;
    }

    fn let_go(&mut self, row: &RowKey, number: u32) {
        let its = self.touching.get_mut(row).expect("who has read a row is in its list");
        its.retain(|other| *other != number);
        if its.is_empty() {
            self.touching.remove(row);
        }
    }

    /// Those that have to be looked at again because a row has changed at the place of `number`: all above that have
    /// touched it, up to and including the next that has written it, in all its versions (!).
    pub fn above(&self, row: &RowKey, number: u32) -> Vec<u32> {
        let Some(its) = self.touching.get(row) else { return Vec::new() };
        // (!) Another version of the same item is not above: who reads there reads of the two which wrote last.
        let start = its.partition_point(|other| self.at(*other).meta <= self.at(number).meta);
        let (mut found, mut writer) = (Vec::new(), None);
        for other in its[start..].iter().copied() {
            // (!) Who reads above a writer reads what that wrote, but for another version of the same.
            if writer.is_some_and(|writer| self.at(writer).meta != self.at(other).meta) {
                break;
            }
            found.push(other);
            if self.at(other).has_written(row) {
                writer = Some(other);
            }
        }
        found
    }

    /// The pass since which the version of a row that `number` reads has been what it is: that of the next below which
    /// has written it.
    pub fn row_since(&self, row: &RowKey, number: u32) -> u64 {
        let Some(its) = self.touching.get(row) else { return 0 };
        let end = its.partition_point(|other| self.at(*other).place() < self.at(number).place());
        let below = its[..end].iter().rev().map(|other| self.at(*other));
        below.into_iter().find(|other| other.has_written(row)).map_or(0, |other| other.since)
    }

    /// They have to be looked at again; those that have run as often as `patience` allows are put off.
    pub fn wait(&mut self, dirty: Vec<u32>, patience: u32) {
        for number in dirty {
            if self.is_in(&self.put_off, number) || self.is_in(&self.dirty, number) {
                continue;
            }
            if self.at(number).runs >= patience {
                self.put_off(number);
            } else {
                let place = self.place_in(&self.dirty, number);
                self.dirty.insert(place, number);
            }
        }
    }

    /// It waits until only others that do could still change what it reads.
    pub fn put_off(&mut self, number: u32) {
        let place = self.place_in(&self.put_off, number);
        self.put_off.insert(place, number);
    }

    /// The time of the lowest that is put off; None: nobody is.
    pub fn undecided(&self) -> Option<u64> {
        self.put_off.front().map(|lowest| time_of(&self.at(*lowest).meta))
    }

    /// Is there any to be looked at, below `limit` if it is given? Of those that are put off: below `reached`.
    pub fn waits(&self, limit: Option<&[u8]>, reached: &Floor) -> bool {
        self.lowest(reached)
            .is_some_and(|(lowest, _)| limit.is_none_or(|limit| self.at(lowest).meta[..] < *limit))
    }

    /// Take out the lowest that `waits`.
    pub fn take_lowest(&mut self, reached: &Floor) -> Option<u32> {
        let (number, is_put_off) = self.lowest(reached)?;
        if is_put_off {
            self.put_off.pop_front();
        } else {
            self.dirty.pop_front();
        }
        Some(number)
    }

    /// The lowest, and is it one that was put off?
    fn lowest(&self, reached: &Floor) -> Option<(u32, bool)> {
        let dirty = self.dirty.front().copied();
        let put_off = self.put_off.front().copied().filter(|lowest| self.at(*lowest).meta[..] < reached[..]);
        match (dirty, put_off) {
            (Some(dirty), Some(put_off)) if self.at(dirty).place() < self.at(put_off).place() => {
                Some((dirty, false))
            }
            (_, Some(put_off)) => Some((put_off, true)),
            (dirty, None) => dirty.map(|dirty| (dirty, false)),
        }
    }

    fn place_in(&self, waiting: &VecDeque<u32>, number: u32) -> usize {
        // in their order most come behind all others
        if waiting.back().is_none_or(|last| self.at(*last).place() < self.at(number).place()) {
            return waiting.len();
        }
        waiting.partition_point(|other| self.at(*other).place() < self.at(number).place())
    }

    /// Two may have one place for a while: the same comes again before it has gone. Each waits for itself.
    fn is_in(&self, waiting: &VecDeque<u32>, number: u32) -> bool {
        let start = self.place_in(waiting, number);
        let alike = |other: &&u32| self.at(**other).place() == self.at(number).place();
        waiting.range(start..).take_while(alike).any(|other| *other == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(pending: &mut Pending<u8>, time: u64, encoded: &[u8]) -> u32 {
        pending.add(Transaction::new(Meta::from_slice(&time.to_be_bytes()), 0, encoded.into(), 0))
    }

    fn row(name: &str) -> RowKey {
        RowKey::from_slice(name.as_bytes())
    }

    fn rows(names: &str) -> Vec<(RowKey, Option<u8>)> {
        names.split_terminator(' ').map(|name| (row(name), None)).collect()
    }

    const ALL: Floor = [255; 8];

    fn none() -> Vec<u32> {
        Vec::new()
    }

    #[test]
    fn what_has_changed_is_looked_at_up_to_the_next_that_wrote_it() {
        let mut pending = Pending::new();
        let late: Vec<u32> = [5, 1, 4, 2, 3].map(|time| added(&mut pending, time, b"")).into();
        let [five, one, four, two, three] = late[..] else { unreachable!() };
        for (number, names) in [(one, "a"), (two, "b"), (three, "a b"), (four, "a"), (five, "a")] {
            pending.touch(number, rows(names));
        }
        pending.at_mut(four).wrote.push((row("a"), Some(7)));
        assert_eq!(pending.above(&row("a"), one), [three, four]);
        assert_eq!(pending.above(&row("a"), two), [three, four], "which has not touched it itself");
        assert_eq!(pending.above(&row("b"), three), none());
        assert_eq!(pending.above(&row("c"), one), none());
    }

    #[test]
    fn who_does_not_touch_a_row_any_more_is_not_looked_at() {
        let mut pending = Pending::new();
        let (one, two) = (added(&mut pending, 1, b""), added(&mut pending, 2, b""));
        pending.touch(two, rows("a b"));
        pending.touch(two, rows("b c"));
        assert_eq!(pending.above(&row("a"), one), none());
        assert_eq!(pending.above(&row("b"), one), [two]);
        assert_eq!(pending.above(&row("c"), one), [two]);
        pending.take_first(2).into_iter().for_each(|number| pending.forget(number));
        assert!(pending.touching.is_empty() && pending.order.is_empty());
    }

    #[test]
    fn versions_of_one_item_are_told_apart() {
        let mut pending = Pending::new();
        let (newer, older) = (added(&mut pending, 1, b"y"), added(&mut pending, 1, b"x"));
        assert_eq!(pending.order, [older, newer]);
        assert_eq!(pending.take_out(&1u64.to_be_bytes(), b"z"), None);
        assert_eq!(pending.take_out(&1u64.to_be_bytes(), b"y"), Some(newer));
        assert_eq!(pending.take_out(&1u64.to_be_bytes(), b"y"), None);
        pending.forget(newer);
        assert_eq!(added(&mut pending, 9, b""), newer, "its number serves another");
        assert_eq!(pending.below(&9u64.to_be_bytes()), 1);
    }

    #[test]
    fn versions_of_one_item_are_not_above_each_other() {
        let mut pending = Pending::new();
        let [older, newer] = [b"x", b"y"].map(|encoded| added(&mut pending, 1, encoded));
        let two = added(&mut pending, 2, b"");
        for number in [older, newer, two] {
            pending.touch(number, rows("a"));
        }
        pending.at_mut(newer).wrote.push((row("a"), Some(7)));
        assert_eq!(
            (pending.above(&row("a"), older), pending.above(&row("a"), newer)),
            (vec![two], vec![two])
        );
    }

    #[test]
    fn what_has_changed_is_looked_at_by_all_versions_of_the_next_that_wrote_it() {
        let mut pending = Pending::new();
        let one = added(&mut pending, 1, b"");
        let [older, newer] = [b"x", b"y"].map(|encoded| added(&mut pending, 2, encoded));
        let three = added(&mut pending, 3, b"");
        for number in [one, older, newer, three] {
            pending.touch(number, rows("a"));
        }
        pending.at_mut(older).wrote.push((row("a"), Some(7)));
        assert_eq!(pending.above(&row("a"), one), [older, newer]);
    }

    #[test]
    fn two_that_are_the_same_wait_each_for_itself() {
        let mut pending = Pending::new();
        let [one, other] = [1, 1].map(|time| added(&mut pending, time, b""));
        pending.wait(vec![one, other, one, other], 1);
        assert_eq!(pending.take_out(&1u64.to_be_bytes(), b""), Some(one));
        assert_eq!((pending.take_lowest(&ALL), pending.take_lowest(&ALL)), (Some(other), None));
    }

    #[test]
    fn the_lowest_of_those_that_wait_comes_first_and_each_once() {
        let mut pending = Pending::new();
        let [three, one, two] = [3, 1, 2].map(|time| added(&mut pending, time, b""));
        for dirty in [vec![three, one, two], vec![two, three], vec![three]] {
            pending.wait(dirty, 1);
        }
        assert!(pending.waits(None, &ALL) && !pending.waits(Some(&1u64.to_be_bytes()), &ALL));
        assert_eq!(pending.take_lowest(&ALL), Some(one));
        assert_eq!(pending.take_out(&2u64.to_be_bytes(), b""), Some(two));
        assert_eq!(pending.take_lowest(&ALL), Some(three));
        pending.wait(vec![three], 1);
        assert_eq!(
            (pending.take_lowest(&ALL), pending.take_lowest(&ALL)),
            (Some(three), None),
            "as if it were the first time"
        );
    }

    #[test]
    fn who_is_put_off_waits_until_everything_below_has_come() {
        let mut pending = Pending::new();
        let [one, two, three] = [1, 2, 3].map(|time| added(&mut pending, time, b""));
        pending.put_off(two);
        pending.at_mut(three).runs = 2;
        pending.wait(vec![three, one], 2);
        assert_eq!(pending.undecided(), Some(2));
        let reached = |time: u64| time.to_be_bytes();
        assert_eq!((pending.take_lowest(&reached(2)), pending.take_lowest(&reached(2))), (Some(one), None));
        pending.wait(vec![two], 2);
        assert_eq!((pending.take_lowest(&reached(3)), pending.take_lowest(&reached(3))), (Some(two), None));
        assert_eq!((pending.take_lowest(&reached(4)), pending.undecided()), (Some(three), None));
    }

    #[test]
    fn a_row_is_what_it_is_since_its_last_writer_below_has_come() {
        let mut pending = Pending::new();
        let [one, two, three] = [1, 2, 3].map(|time| added(&mut pending, time, b""));
        for (number, since) in [(one, 9), (two, 5), (three, 7)] {
            pending.touch(number, rows("a"));
            pending.at_mut(number).since = since;
        }
        pending.at_mut(one).wrote.push((row("a"), Some(7)));
        assert_eq!((pending.row_since(&row("a"), three), pending.row_since(&row("a"), one)), (9, 0));
        assert_eq!(pending.row_since(&row("b"), three), 0);
    }
}
