//! Versions: a shard at a live cut, seen as how it is now but for what was changed since.

use crate::state::shards::shard::{Head, Held, Place};
use crate::state::shards::story::Story;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// Places that were, or are to be, other than they are now, with their states; None: nothing.
type Others<'a> = HashMap<&'a Place, Option<&'a Held>>;

/// A shard at one time, beside how it is now.
pub(super) struct At<'a> {
    story: &'a Story,
    pub(super) head: &'a Head,
    pub(super) others: Others<'a>,
}

impl<'a> At<'a> {
    /// Before the base or step of this number.
    pub(super) fn before(story: &'a Story, number: usize) -> Self {
        let mut others = Others::new();
        let bases = story.bases.len();
        for step in story.steps[number.saturating_sub(bases)..].iter().rev() {
            step.changed.iter().rev().for_each(|(place, before)| {
                others.insert(place, before.as_ref());
            });
        }
        for base in story.bases[number.min(bases)..].iter().rev() {
            base.changed.iter().for_each(|(place, before)| {
                others.insert(place, before.as_ref());
            });
        }
        let head = match (story.bases.get(number), story.steps.get(number.wrapping_sub(bases))) {
            (Some(base), _) => &base.head,
            (None, Some(step)) => &step.head,
            (None, None) => &story.shard.head,
        };
        At { story, head, others }
    }

    pub(super) fn held(&self, place: &Place) -> Option<&'a Held> {
        match self.others.get(place) {
            Some(other) => *other,
            None => self.story.shard.held.get(place),
        }
    }

    /// How many places there are.
    pub(super) fn len(&self) -> usize {
        let now = |place: &&Place| self.story.shard.held.contains_key(*place);
        let more = self.others.iter().filter(|(place, other)| other.is_some() && !now(place)).count();
        let fewer = self.others.iter().filter(|(place, other)| other.is_none() && now(place)).count();
        self.story.shard.held.len() + more - fewer
    }

    pub(super) fn places(&self) -> Vec<(&'a Place, &'a Held)> {
        let now = self.story.shard.held.iter().filter(|(place, _)| !self.others.contains_key(*place));
        let mut all: Vec<_> =
            now.chain(self.others.iter().filter_map(|(place, other)| Some((*place, (*other)?)))).collect();
        all.sort_by(|one, other| one.0.cmp(other.0));
        all
    }

    /// How many places are due in each step of which that is not what it is now.
    pub(super) fn due(&self) -> BTreeMap<i64, usize> {
        let mut due = BTreeMap::new();
        let now = |number: i64| self.story.shard.due.get(&number).map_or(0, |places| places.len());
        for (place, other) in &self.others {
            let (old, new) = (
                other.and_then(|held| held.due()),
                self.story.shard.held.get(*place).and_then(|held| held.due()),
            );
            if old != new {
                old.into_iter().for_each(|number| *due.entry(number).or_insert_with(|| now(number)) += 1);
                new.into_iter().for_each(|number| *due.entry(number).or_insert_with(|| now(number)) -= 1);
            }
        }
        due
    }

    /// How many places are due in a step, and in how many steps there are any.
    pub(super) fn due_counts(&self) -> (impl Fn(i64) -> usize + 'a, usize) {
        let (others, now) = (self.due(), &self.story.shard.due);
        let come = others.iter().filter(|(number, count)| **count > 0 && !now.contains_key(number)).count();
        let gone = others.iter().filter(|(number, count)| **count == 0 && now.contains_key(number)).count();
        let steps = now.len() + come - gone;
        (
            move |number| {
                others
                    .get(&number)
                    .copied()
                    .unwrap_or_else(|| now.get(&number).map_or(0, |places| places.len()))
            },
            steps,
        )
    }
}
