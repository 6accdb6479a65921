//! Keyed state: buckets by canonical key, and which of them changed since the committed cut. The mirror of
//! `core/dataflow/keyed_state.py`.

use crate::meta::Floor;
use crate::state::buckets::{Bucket, Changed, Content};
use crate::state::matching::Matching;
use hashbrown::{DefaultHashBuilder, HashTable};
use pyo3::types::{PyBytes, PyBytesMethods};
use pyo3::Python;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::ops::Bound;

/// The buckets of one vertex on one worker.
pub struct Table<C> {
    buckets: Vec<Option<Box<Bucket<C>>>>,
    free: Vec<u32>,
    /// The keys in their order, made when somebody first asks for a page of them, and kept from then on.
    ordered: Option<Ordered>,
    by_key: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pub dirty: Vec<u32>,
    /// Those that were so when the rows of a snapshot began, last one first.
    pub encoding: Vec<u32>,
    /// Buckets that the trimming behind a commit still has to visit.
    visiting: Vec<u32>,
    /// What all buckets have stored, in full and behind that.
    bytes: usize,
}

impl<C: Content> Table<C> {
    pub fn new() -> Self {
        Table {
            buckets: Vec::new(),
            free: Vec::new(),
            ordered: None,
            by_key: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            dirty: Vec::new(),
            encoding: Vec::new(),
            visiting: Vec::new(),
            bytes: 0,
        }
    }

    pub fn find(&self, key: &[u8]) -> Option<u32> {
        let buckets = &self.buckets;
        self.by_key
            .find(self.hasher.hash_one(key), |at| {
                *buckets[*at as usize].as_ref().expect("indexed buckets exist").key == *key
            })
            .copied()
    }

    /// Room for so many more buckets.
    pub fn reserve(&mut self, more: usize) {
        let (buckets, hasher) = (&self.buckets, &self.hasher);
        self.by_key.reserve(more, |at| {
            hasher.hash_one(&*buckets[*at as usize].as_ref().expect("indexed buckets exist").key)
        });
        self.buckets.reserve(more);
    }

    fn add(&mut self, key: &[u8], slot: u16) -> u32 {
        let bucket = Box::new(Bucket {
            key: key.into(),
            slot,
            dirty: false,
            full: 0,
            chain: 0,
            older: false,
            unstored: false,
            content: C::default(),
        });
        if let Some(ordered) = &mut self.ordered {
            ordered.keys.insert(key.into()); // (!) at a place that the walk has passed it would not be seen again
        }
        let at = match self.free.pop() {
            Some(at) => {
                self.buckets[at as usize] = Some(bucket);
                at
            }
            None => {
                self.buckets.push(Some(bucket));
                (self.buckets.len() - 1) as u32
            }
        };
        let (buckets, hasher) = (&self.buckets, &self.hasher);
        let hash_of =
            |at: &u32| hasher.hash_one(&*buckets[*at as usize].as_ref().expect("indexed buckets exist").key);
        self.by_key.insert_unique(hasher.hash_one(key), at, hash_of);
        at
    }

    fn remove(&mut self, at: u32) {
        let bucket = self.buckets[at as usize].take().expect("a bucket is removed once");
        self.bytes -= bucket.full + bucket.chain;
        if let Ok(found) = self.by_key.find_entry(self.hasher.hash_one(&*bucket.key), |other| *other == at) {
            found.remove();
        }
        if let Some(ordered) = &mut self.ordered {
            ordered.keys.remove(&bucket.key);
        }
        self.free.push(at);
    }

    pub fn at(&mut self, at: u32) -> &mut Bucket<C> {
        self.buckets[at as usize].as_mut().expect("the bucket exists")
    }

    /// How many items a bucket has below each of two cuts; None if none is between them and a commit has a row of it,
    /// or if there is no bucket.
    pub fn between(&self, at: u32, committed: &Floor, cut: &Floor) -> Option<(usize, usize)> {
        let bucket = self.buckets[at as usize].as_ref()?;
        let (before, newest) = (bucket.content.below(committed), bucket.content.below(cut));
        (before != newest || bucket.unstored).then_some((before, newest))
    }

    /// A bucket that was restored from no row of a snapshot.
    pub fn unstored(&mut self, key: &[u8]) {
        if let Some(at) = self.find(key) {
            let bucket = self.at(at);
            (bucket.unstored, bucket.dirty) = (true, true);
            self.dirty.push(at);
        }
    }

    /// The bucket of `key`, marked as changed.
    #[inline]
    pub fn touched(&mut self, key: &[u8], slot: u16) -> u32 {
        let at = self.find(key).unwrap_or_else(|| self.add(key, slot));
        let bucket = self.at(at);
        if !bucket.dirty {
            bucket.dirty = true;
            self.dirty.push(at);
        }
        at
    }

    /// A cut: the rows of a snapshot are of what has changed until now.
    pub fn begin_rows(&mut self) {
        self.encoding = self.dirty.iter().rev().copied().collect();
    }

    /// A commit: every bucket that changed must be visited. How many those are.
    pub fn begin_trimming(&mut self) -> usize {
        self.visiting = std::mem::take(&mut self.dirty);
        self.visiting.reverse();
        self.visiting.len()
    }

    /// Visit one bucket behind a commit at `limit`. False when there was none.
    pub fn trim_next(&mut self, cuts: &[Floor], limit: &Floor) -> bool {
        let Some(at) = self.visiting.pop() else { return false };
        let bucket = self.at(at);
        bucket.content.trim(cuts);
        bucket.unstored = false;
        bucket.dirty = bucket.content.reaches(limit);
        if bucket.dirty {
            self.dirty.push(at);
        } else if bucket.content.is_empty() {
            self.remove(at);
        }
        true
    }

    /// Be as at the live cut `limit`.
    pub fn go_back(&mut self, limit: &Floor) {
        for at in std::mem::take(&mut self.dirty) {
            let bucket = self.at(at);
            bucket.dirty = bucket.unstored; // (!) what was made of a snapshot is not in it
            if !bucket.content.roll_back(limit) {
                self.remove(at);
            } else if bucket.dirty {
                self.dirty.push(at);
            }
        }
    }

    /// Forget every slot for which `keeps` is false.
    pub fn keep(&mut self, keeps: impl Fn(u16) -> bool) {
        for at in 0..self.buckets.len() as u32 {
            if self.buckets[at as usize].as_ref().is_some_and(|bucket| !keeps(bucket.slot)) {
                self.remove(at);
            }
        }
        let buckets = &self.buckets;
        self.dirty.retain(|at| buckets[*at as usize].is_some());
    }

    /// Forget a bucket, if it is there.
    pub fn drop(&mut self, key: &[u8]) {
        if let Some(at) = self.find(key) {
            self.remove(at);
            self.dirty.retain(|other| *other != at);
        }
    }

    /// A bucket that is about to be restored: it must not exist yet.
    pub fn made(&mut self, key: &[u8], slot: u16) -> &mut Bucket<C> {
        self.drop(key);
        let at = self.add(key, slot);
        self.at(at)
    }

    /// The content of a bucket that is about to be restored, of which so many bytes are stored in full, and
    /// behind that. None in full: it is of an older version (core/dataflow/stored.py).
    pub fn restored(&mut self, key: &[u8], slot: u16, full: usize, chain: usize) -> &mut C {
        self.drop(key);
        let at = self.add(key, slot);
        self.resize(at, full, chain);
        let bucket = self.at(at);
        bucket.older = full == 0;
        &mut bucket.content
    }

    /// So many bytes of a bucket are stored in full, and behind that.
    pub fn resize(&mut self, at: u32, full: usize, chain: usize) {
        let bucket = self.at(at);
        let before = bucket.full + bucket.chain;
        (bucket.full, bucket.chain) = (full, chain);
        self.bytes = self.bytes - before + full + chain;
    }

    /// The row of a bucket in a snapshot, whose size counts from now on: the whole state, or a change.
    pub fn row<'py>(
        &mut self,
        py: Python<'py>,
        at: u32,
        full: bool,
        state: pyo3::Bound<'py, PyBytes>,
    ) -> Changed<'py> {
        let (size, bucket) = (state.as_bytes().len(), self.at(at));
        let (slot, key) = (bucket.slot, PyBytes::new(py, &bucket.key));
        let sizes = if full { (size, 0) } else { (bucket.full, bucket.chain + size) };
        self.resize(at, sizes.0, sizes.1);
        Changed { slot, key, full, state }
    }

    /// How many keys there are, and bytes as snapshots have them.
    pub fn size(&self) -> (usize, usize) {
        (self.by_key.len(), self.bytes)
    }

    /// Put about so many more keys in order. Whether some are left.
    pub fn order(&mut self, count: usize) -> bool {
        let ordered = self.ordered.get_or_insert_default();
        let end = (ordered.walked + count).min(self.buckets.len());
        for bucket in self.buckets[ordered.walked.min(end)..end].iter().flatten() {
            ordered.keys.insert(bucket.key.clone());
        }
        ordered.walked = end;
        end < self.buckets.len()
    }

    /// The least keys behind `after` that are meant, as many as are wanted, and whether there are more. Of those that
    /// are in order: all of them, once nothing is left to be put so.
    pub fn page<'a>(&'a self, after: &[u8], count: usize, matching: &Matching) -> (Vec<&'a [u8]>, bool) {
        let mut found = Vec::new();
        let Some(ordered) = &self.ordered else { return (found, false) };
        // (!) What is not meant is passed over at once: else a page of a few would walk through all keys.
        let mut next = matching.least(after).map(|least| least.max([after, b"\0"].concat()));
        if after.is_empty() {
            next = matching.least(after);
        }
        while let Some(from) = next {
            next = None;
            for key in ordered.keys.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded)) {
                if !matching.fits(key) {
                    next = matching.least(key).filter(|least| **least > **key);
                    break;
                }
                if found.len() == count {
                    return (found, true);
                }
                found.push(&**key);
            }
        }
        (found, false)
    }

    pub fn all(&self) -> impl Iterator<Item = &Bucket<C>> {
        self.buckets.iter().flatten().map(|bucket| &**bucket)
    }
}

/// The keys of a table in order, as far as its buckets were walked through.
#[derive(Default)]
struct Ordered {
    keys: BTreeSet<Box<[u8]>>,
    walked: usize,
}

impl<C: Content> Default for Table<C> {
    fn default() -> Self {
        Table::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Items by time alone.
    #[derive(Default)]
    struct Times(Vec<Floor>);

    impl Content for Times {
        fn below(&self, cut: &[u8]) -> usize {
            self.0.iter().filter(|time| time[..] < *cut).count()
        }
        fn trim(&mut self, cuts: &[Floor]) {
            self.0.retain(|time| time >= cuts.last().expect("one at least"));
        }
        fn roll_back(&mut self, cut: &Floor) -> bool {
            self.0.retain(|time| time < cut);
            !self.0.is_empty()
        }
        fn reaches(&self, cut: &Floor) -> bool {
            self.0.iter().any(|time| time >= cut)
        }
        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }

    fn put(table: &mut Table<Times>, key: &[u8], time: u64) {
        let at = table.touched(key, u16::from(key[0]));
        table.at(at).content.0.push(time.to_be_bytes());
    }

    fn held(table: &Table<Times>) -> BTreeMap<Vec<u8>, usize> {
        table.all().map(|bucket| (bucket.key.to_vec(), bucket.content.0.len())).collect()
    }

    fn commit(table: &mut Table<Times>, limit: u64) {
        table.begin_trimming();
        while table.trim_next(&[limit.to_be_bytes()], &limit.to_be_bytes()) {}
    }

    #[test]
    fn a_key_has_one_bucket() {
        let mut table = Table::new();
        for time in 0..3 {
            put(&mut table, b"a", time);
            put(&mut table, b"b", time);
        }
        assert_eq!(held(&table), BTreeMap::from([(b"a".to_vec(), 3), (b"b".to_vec(), 3)]));
        assert_eq!(table.dirty.len(), 2, "each is marked once");
    }

    #[test]
    fn a_bucket_that_was_removed_is_not_found_and_its_place_serves_another_key() {
        let mut table = Table::new();
        put(&mut table, b"a", 1);
        commit(&mut table, 2);
        assert_eq!(table.find(b"a"), None);
        put(&mut table, b"b", 3);
        assert_eq!(table.find(b"b"), Some(0), "its place");
        assert_eq!(table.find(b"a"), None);
    }

    #[test]
    fn a_page_has_the_least_keys_whatever_comes_and_goes_while_they_are_put_in_order() {
        let mut table = Table::<Times>::new();
        ["c", "a", "e"].iter().for_each(|key| put(&mut table, key.as_bytes(), 5));
        let all = Matching { head: b"", text: None };
        assert!(table.order(2));
        table.go_back(&Floor::default());
        ["d", "b"].iter().for_each(|key| put(&mut table, key.as_bytes(), 6));
        while table.order(2) {}
        assert_eq!(table.page(b"", 9, &all), (vec![b"b".as_slice(), b"d"], false));
        put(&mut table, b"a", 7);
        assert_eq!(table.page(b"", 2, &all), (vec![b"a".as_slice(), b"b"], true));
        assert_eq!(table.page(b"b", 2, &all), (vec![b"d".as_slice()], false));
    }

    #[test]
    fn a_page_of_texts_has_those_that_begin_so_of_any_length() {
        let mut table = Table::<Times>::new();
        let long = [b"\xd9\x21".as_slice(), &b"an".repeat(16), b"n"].concat();
        for key in [
            b"\x07".as_slice(),
            b"\xa1z",
            b"\xa2am",
            b"\xa2an",
            b"\xa2ao",
            b"\xa3ann",
            b"\xc0",
            &long,
            b"\xff",
        ] {
            put(&mut table, key, 5);
        }
        while table.order(2) {}
        let texts = Matching { head: b"", text: Some(b"an") };
        assert_eq!(table.page(b"", 9, &texts), (vec![b"\xa2an".as_slice(), b"\xa3ann", &long], false));
        assert_eq!(table.page(b"\xa2an", 1, &texts), (vec![b"\xa3ann".as_slice()], true));
        assert_eq!(table.page(&long, 1, &texts), (vec![], false));
    }

    #[test]
    fn a_commit_keeps_what_is_above_it_as_changed() {
        let mut table = Table::new();
        put(&mut table, b"a", 1);
        put(&mut table, b"b", 5);
        commit(&mut table, 3);
        assert_eq!(held(&table), BTreeMap::from([(b"b".to_vec(), 1)]));
        assert_eq!(table.dirty.len(), 1);
    }

    #[test]
    fn a_row_is_made_where_items_lie_between_two_cuts() {
        let mut table = Table::new();
        put(&mut table, b"a", 1);
        put(&mut table, b"a", 4);
        put(&mut table, b"b", 9);
        let between = |table: &Table<Times>, at, low: u64, high: u64| {
            table.between(at, &low.to_be_bytes(), &high.to_be_bytes())
        };
        assert_eq!(between(&table, 0, 0, 4), Some((0, 1)), "a cut is above what is below it");
        assert_eq!(between(&table, 0, 2, 5), Some((1, 2)));
        assert_eq!(between(&table, 0, 2, 4), None);
        table.keep(|slot| slot == u16::from(b'b'));
        assert_eq!(between(&table, 0, 0, 5), None, "its bucket is gone");
        assert_eq!(between(&table, 1, 0, 10), Some((0, 1)));
    }

    #[test]
    fn going_back_leaves_what_was_below_the_cut() {
        let mut table = Table::new();
        put(&mut table, b"a", 1);
        put(&mut table, b"a", 5);
        put(&mut table, b"b", 6);
        table.go_back(&3u64.to_be_bytes());
        assert_eq!(held(&table), BTreeMap::from([(b"a".to_vec(), 1)]));
        assert!(table.dirty.is_empty());
    }

    #[test]
    fn what_no_commit_has_is_in_the_next_whatever_is_between() {
        let mut table = Table::<Times>::new();
        table.made(b"a", 0).content.0.push(1u64.to_be_bytes());
        table.unstored(b"a");
        let between = |table: &Table<Times>| table.between(0, &2u64.to_be_bytes(), &5u64.to_be_bytes());
        assert_eq!((table.dirty.len(), between(&table)), (1, Some((1, 1))));
        put(&mut table, b"a", 3);
        table.go_back(&2u64.to_be_bytes());
        assert_eq!((table.dirty.len(), between(&table)), (1, Some((1, 1))), "and behind a recovery");
        table.begin_trimming();
        assert!(table.trim_next(&[Floor::default()], &5u64.to_be_bytes()));
        assert_eq!((table.dirty.len(), between(&table)), (0, None), "once");
    }

    #[test]
    fn slots_that_are_given_away_are_forgotten() {
        let mut table = Table::new();
        put(&mut table, b"a", 1);
        put(&mut table, b"b", 1);
        table.keep(|slot| slot == u16::from(b'b'));
        assert_eq!(held(&table), BTreeMap::from([(b"b".to_vec(), 1)]));
        assert_eq!(table.dirty.len(), 1);
    }

    #[test]
    fn a_bucket_that_is_restored_takes_the_place_of_what_was_there() {
        let mut table = Table::new();
        put(&mut table, b"a", 1);
        table.made(b"a", 0).content.0.push(9u64.to_be_bytes());
        assert_eq!(held(&table), BTreeMap::from([(b"a".to_vec(), 1)]));
        assert!(table.dirty.is_empty(), "what a snapshot has is not new");
    }

    #[test]
    fn many_keys_come_and_go() {
        const KEYS: u32 = if cfg!(miri) { 50 } else { 1000 }; // miri takes minutes for a thousand
        let mut table = Table::new();
        for round in 0..3u64 {
            (0..KEYS).for_each(|number| put(&mut table, &number.to_le_bytes(), round));
            assert_eq!(held(&table).len(), KEYS as usize);
            table.keep(|slot| slot % 2 == 0);
            assert!(table.all().all(|bucket| table.find(&bucket.key).is_some()));
        }
    }
}
