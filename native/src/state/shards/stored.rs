//! Stored shards: a `process.Shard` of Python's becomes one to work with.
//!
//! Does not: know when places are due but by the step; Python says the time when it comes (marks.rs).

use crate::python::reference;
use crate::state::shards::panes::{Folding, Panes};
use crate::state::shards::shard::{Held, Shard, State};
use crate::state::shards::steps::Steps;
use pyo3::prelude::*;

impl Steps {
    /// A `process.Shard` as it is kept here.
    pub(super) fn restored(&self, stored: &Bound<'_, PyAny>) -> PyResult<Shard> {
        let mut shard = Shard::default();
        shard.head.begun = true;
        shard.head.mark = stored.getattr("mark")?.extract()?;
        let results = stored.getattr("results")?;
        shard.head.results = (results.len()? > 0).then(|| results.unbind());
        let counts = matches!(self.panes, Some(Panes { folding: Folding::Count, .. }));
        for entry in stored.getattr("states")?.call_method0("items")?.try_iter()? {
            let (place, state): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry?.extract()?;
            let count = if counts { state.get_item(0)?.extract().ok() } else { None };
            let state = count.map_or_else(|| State::Object(state.unbind()), State::Count);
            shard.held.insert(reference::encoded(&place)?.into(), Held::new(state, None, None));
        }
        for entry in stored.getattr("due")?.call_method0("items")?.try_iter()? {
            let (number, places): (i64, Bound<'_, PyAny>) = entry?.extract()?;
            for place in places.try_iter()? {
                let (place, _) = shard.at(reference::encoded(&place?)?);
                shard.held.get_mut(&place).expect("what is due has a state").becomes_due(number);
                shard.due.entry(number).or_default().insert(place);
            }
        }
        Ok(shard)
    }
}
