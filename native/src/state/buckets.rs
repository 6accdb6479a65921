//! Buckets: what one key has, whatever it is, and what of that may be forgotten.

use crate::meta::{Floor, Meta};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A bucket, the state of one key: what every kind of state has, and its content.
pub struct Bucket<C> {
    pub key: Box<[u8]>,
    pub slot: u16,
    pub dirty: bool,
    /// Size of the newest full row, and of the deltas behind it.
    pub full: usize,
    pub chain: usize,
    /// It was restored from rows of an older version.
    pub older: bool,
    /// No commit has a row of it yet: the next one does, whether it changes or not.
    pub unstored: bool,
    pub content: C,
}

/// The row of a bucket that has changed between two cuts.
pub struct Changed<'py> {
    pub slot: u16,
    pub key: Bound<'py, PyBytes>,
    pub full: bool,
    pub state: Bound<'py, PyBytes>,
}

/// Bytes of changes that may pile up on a small full state before it is written in full again
/// (`state.FULL_ABOVE`).
const FULL_ABOVE: usize = 1024;

/// Below it is only what was restored: no item has the time 0.
const FIRST: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 1];

impl<C: Content> Bucket<C> {
    /// May a change stand behind what is stored of the first `before` items? A key's first row of a version
    /// is full (!): an epoch with one may have been aborted, so the last row that was made says nothing.
    pub fn is_stored(&self, before: usize) -> bool {
        before > 0 && self.full > 0 && !(self.older && self.content.below(&FIRST) == before)
    }
}

impl<C> Bucket<C> {
    /// May a change of this size be stored behind what is stored? A chain of changes never outgrows its full
    /// state.
    pub fn takes(&self, change: usize) -> bool {
        self.chain + change <= self.full + FULL_ABOVE
    }
}

/// The items of a bucket, ascending, with what stands after each.
pub trait Content: Default {
    /// The number of items below `cut`.
    fn below(&self, cut: &[u8]) -> usize;
    /// Forget what no live cut of `cuts` (ascending) needs; everything above the last stays.
    fn trim(&mut self, cuts: &[Floor]);
    /// Forget everything above `cut`. False if nothing is left.
    fn roll_back(&mut self, cut: &Floor) -> bool;
    /// Has it an item at or above `cut`?
    fn reaches(&self, cut: &Floor) -> bool;
    fn is_empty(&self) -> bool;
    /// What it was restored from, as long as nothing has touched it: a tuple of parts.
    fn stored(&self) -> Option<&Py<PyAny>> {
        None
    }
}

/// An item of a bucket with what stands after it.
pub trait Dated {
    fn meta(&self) -> &Meta;
    /// Is the item itself still there?
    fn is_whole(&self) -> bool;
    /// Keep the accumulator alone.
    fn forget(&mut self);
}

/// Below the last of `cuts` keep the newest item below each of them, and of it only the accumulator.
pub fn forget_below<E: Dated>(items: &mut Vec<E>, cuts: &[Floor]) {
    let below = |limit: &Floor| items.partition_point(|item| item.meta()[..] < limit[..]);
    let mut kept: Vec<usize> = Vec::new();
    for cut in cuts {
        let count = below(cut);
        if count > 0 && kept.last() != Some(&(count - 1)) {
            kept.push(count - 1);
        }
    }
    let first_live = below(cuts.last().expect("there is always a committed cut"));
    // nothing to drop, and what stays was forgotten at an earlier commit
    if kept.len() >= first_live && !kept.last().is_some_and(|newest| items[*newest].is_whole()) {
        return;
    }
    let mut place = 0;
    items.retain_mut(|item| {
        let stays = place >= first_live || kept.contains(&place);
        if place < first_live {
            item.forget();
        }
        place += 1;
        stays
    });
}
