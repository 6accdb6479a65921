//! Contention: how often transactions are decided, for which rows again, and how many are aborted; for people. The
//! mirror of `core/dataflow/tables/contention.py`.

use crate::state::transactions::pending::RowKey;

/// Rows that are remembered.
const MOST_ROWS: usize = 8;

#[derive(Default)]
pub struct Contention {
    pub decided: u64,
    pub runs: u64,
    pub aborted: u64,
    rows: Vec<(RowKey, u64)>,
}

impl Contention {
    /// A transaction's outcome is final, after so many runs.
    pub fn settle(&mut self, runs: u32, aborted: bool) {
        self.decided += 1;
        self.runs += u64::from(runs);
        self.aborted += u64::from(aborted);
    }

    /// A change of a row has so many others looked at again.
    pub fn changed(&mut self, row: &RowKey, others: usize) {
        if let Some((_, count)) = self.rows.iter_mut().find(|(known, _)| known == row) {
            *count += others as u64;
            return;
        }
        // A row that is new takes over the count of the least one: who has many is never missing (space-saving).
        let least = (0..self.rows.len()).min_by_key(|at| self.rows[*at].1);
        let before = match least.filter(|_| self.rows.len() == MOST_ROWS) {
            Some(at) => self.rows.remove(at).1,
            None => 0,
        };
        self.rows.push((row.clone(), before + others as u64));
    }

    /// The rows, the most first.
    pub fn rows(&self) -> Vec<(RowKey, u64)> {
        let mut rows = self.rows.clone();
        rows.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        rows
    }
}
