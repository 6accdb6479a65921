//! Shard: the states of its places as they are now, and when they are due.

use hashbrown::{HashMap, HashSet};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;

/// The canonical encoding of a place.
pub type Place = Rc<[u8]>;

/// The state that a program keeps in a place.
pub enum State {
    /// `(count,)`, of a window that counts.
    Count(i64),
    Object(Py<PyAny>),
}

impl State {
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            State::Count(count) => Ok(PyTuple::new(py, [count])?.into_any()),
            State::Object(object) => Ok(object.bind(py).clone()),
        }
    }

    pub fn is(&self, other: &State) -> bool {
        match (self, other) {
            (State::Count(one), State::Count(other)) => one == other,
            (State::Object(one), State::Object(other)) => one.is(other),
            _ => false,
        }
    }
}

/// A state, and when it is due.
pub struct Held {
    pub state: State,
    step: i64,
    time: i64,
}

/// No step, and no time: two plain numbers take half of what two options do, a key.
const NONE: i64 = i64::MIN;

impl Held {
    /// `due`: the number of the step in which it is due; `time`: the time itself, where that is known.
    pub fn new(state: State, due: Option<i64>, time: Option<i64>) -> Self {
        Held { state, step: due.unwrap_or(NONE), time: time.unwrap_or(NONE) }
    }

    pub fn due(&self) -> Option<i64> {
        (self.step != NONE).then_some(self.step)
    }

    pub fn time(&self) -> Option<i64> {
        (self.time != NONE).then_some(self.time)
    }

    /// It was restored, and is due in this step.
    pub fn becomes_due(&mut self, step: i64) {
        self.step = step;
    }
}

/// The head of a shard: what is known of it beside its places.
#[derive(Default)]
pub struct Head {
    /// Has any step succeeded?
    pub begun: bool,
    pub mark: Option<i64>,
    /// A tuple, those of the last step that succeeded; None: there were none.
    pub results: Option<Py<PyAny>>,
}

impl Head {
    pub fn clone_ref(&self, py: Python<'_>) -> Head {
        Head {
            begun: self.begun,
            mark: self.mark,
            results: self.results.as_ref().map(|results| results.clone_ref(py)),
        }
    }
}

/// A shard as it is now.
#[derive(Default)]
pub struct Shard {
    pub head: Head,
    pub held: HashMap<Place, Held>,
    pub due: BTreeMap<i64, HashSet<Place>>,
}

/// Places below which the size of a table does not matter.
const LEAST: usize = 64;

/// The states that places had before a step, in the order of its changes.
pub type Changed = Vec<(Place, Option<Held>)>;

impl Shard {
    /// A place, and what it holds. One that is there already is the same allocation everywhere.
    pub fn at(&self, encoded: Vec<u8>) -> (Place, Option<&Held>) {
        match self.held.get_key_value(&encoded[..]) {
            Some((place, held)) => (place.clone(), Some(held)),
            None => (encoded.into(), None),
        }
    }

    /// Put `after` in a place. What was there before goes to `changed`.
    pub fn put(&mut self, changed: &mut Changed, place: Place, after: Option<Held>) {
        let before = self.exchange(&place, after);
        changed.push((place, before));
    }

    fn exchange(&mut self, place: &Place, after: Option<Held>) -> Option<Held> {
        let new = after.as_ref().and_then(|held| held.due());
        let before = match after {
            Some(held) => {
                make_room(&mut self.held);
                self.held.insert(place.clone(), held)
            }
            None => {
                let before = self.held.remove(place);
                give_back(&mut self.held);
                before
            }
        };
        let old = before.as_ref().and_then(|held| held.due());
        if old != new {
            if let Some(number) = old {
                let places = self.due.get_mut(&number).expect("a state is due where it says");
                places.remove(place);
                if places.is_empty() {
                    self.due.remove(&number);
                }
            }
            if let Some(number) = new {
                self.due.entry(number).or_default().insert(place.clone());
            }
        }
        before
    }

    pub fn undo(&mut self, changed: Changed) {
        for (place, before) in changed.into_iter().rev() {
            self.exchange(&place, before);
        }
    }
}

/// Room for another place. Places that go leave marks, which take room in a table until it is made anew, and one
/// that is more than half full would then be made twice as large: that is for those that are full of places.
fn make_room(held: &mut HashMap<Place, Held>) {
    let count = held.len();
    if count == held.capacity() {
        let old = mem::replace(held, HashMap::with_capacity(count + count / 8 + 1));
        held.extend(old);
    }
}

/// Smaller, when most places have gone.
fn give_back(held: &mut HashMap<Place, Held>) {
    if held.capacity() > LEAST && held.len() < held.capacity() / 8 {
        held.shrink_to(2 * held.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: usize) -> Place {
        number.to_le_bytes().to_vec().into()
    }

    fn put(shard: &mut Shard, number: usize, after: Option<Held>) {
        shard.put(&mut Changed::new(), place(number), after);
    }

    fn count(due: i64) -> Option<Held> {
        Some(Held::new(State::Count(1), Some(due), None))
    }

    /// As many places as take 60% of a table, and then 100 times as many, each of which takes the place of the
    /// oldest.
    #[test]
    fn a_table_of_places_that_come_and_go_stays_as_large() {
        let (mut shard, live) = (Shard::default(), 1_230);
        (0..live).for_each(|number| put(&mut shard, number, count(0)));
        let size = shard.held.allocation_size();
        for number in live..100 * live {
            put(&mut shard, number - live, None);
            put(&mut shard, number, count(0));
        }
        assert_eq!((shard.held.len(), shard.held.allocation_size()), (live, size));
    }

    #[test]
    fn places_that_have_gone_give_their_room_back() {
        let (mut shard, many) = (Shard::default(), 10_000);
        (0..many).for_each(|number| put(&mut shard, number, count(number as i64)));
        let size = shard.held.allocation_size();
        (10..many).for_each(|number| put(&mut shard, number, None));
        assert!(shard.held.allocation_size() < size / 50);
        assert!((0..10).all(|number| shard.held.contains_key(&place(number))));
        assert_eq!(shard.due.keys().copied().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_undone_is_there_again() {
        let (mut shard, mut changed) = (Shard::default(), Changed::new());
        (0..1_000).for_each(|number| put(&mut shard, number, count(number as i64 % 7)));
        (0..990).for_each(|number| shard.put(&mut changed, place(number), None));
        shard.undo(changed);
        assert!((0..1_000).all(|number| shard.held[&place(number)].due() == Some(number as i64 % 7)));
    }
}
