//! Marks: event time has passed, and what is due until then is called, the earliest first.

use crate::payload::row::object_of;
use crate::state::shards::panes::end_of;
use crate::state::shards::shard::{Changed, Place, Shard};
use crate::state::shards::steps::{extend, told, Results, Steps};
use pyo3::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Steps {
    pub(super) fn passed<'py>(
        &self,
        shard: &mut Shard,
        changed: &mut Changed,
        mark: i64,
        py: Python<'py>,
    ) -> PyResult<Results<'py>> {
        let last = mark.div_euclid(self.step);
        let ready: Vec<Place> =
            shard.due.range(..=last).flat_map(|(_, places)| places.iter().cloned()).collect();
        let mut waiting = BinaryHeap::with_capacity(ready.len());
        for place in ready {
            waiting.push(Reverse((self.time_of_place(py, shard, &place)?, place, 0)));
        }
        let mut results = Vec::new();
        while let Some(Reverse((time, place, calls))) = waiting.pop() {
            let state = shard.held[&place].state.object(py)?;
            let answer = self.called.bind(py).call1((object_of(py, &place)?, state, time, calls))?;
            let (after, more, time) = told(answer)?;
            extend(&mut results, &more)?;
            self.keep(shard, changed, place.clone(), after, time)?;
            if let Some(time) = time.filter(|time| self.due(Some(*time)) <= Some(last)) {
                waiting.push(Reverse((time, place, calls + 1)));
            }
        }
        shard.head.mark = Some(mark);
        Ok(results)
    }

    /// When a state is due, exactly.
    fn time_of_place(&self, py: Python<'_>, shard: &Shard, place: &Place) -> PyResult<i64> {
        if self.panes.is_some() {
            return Ok(end_of(place));
        }
        let held = &shard.held[place];
        if let Some(time) = held.time() {
            return Ok(time);
        }
        let state = held.state.object(py)?; // it was restored
        self.program.bind(py).call_method1("due", (object_of(py, place)?, state))?.extract()
    }
}
