//! Patience: how often a transaction may be decided before it waits until nothing can come below it any more. The mirror
//! of `core/dataflow/tables/patience.py`.

pub struct Patience {
    /// Behind so many runs a transaction waits.
    pub runs: u32,
    /// What `runs` is while transactions are guessed.
    most: u32,
    adapts: bool,
    window: u64,
    decided: u64,
    early: u64,
}

impl Patience {
    /// `pinned`: the runs behind which a transaction waits, always; None: by measure.
    pub fn new(pinned: Option<u32>, most: u32, window: u64) -> Self {
        Patience {
            runs: pinned.unwrap_or(most),
            most,
            adapts: pinned.is_none(),
            window,
            decided: 0,
            early: 0,
        }
    }

    /// Whether no transaction is decided when it comes.
    pub fn waits(&self) -> bool {
        self.runs == 0
    }

    /// A transaction was decided for the first time. `early`: when it came that would have been too early.
    pub fn decided(&mut self, early: bool) {
        self.decided += 1;
        self.early += u64::from(early);
        if self.adapts && self.decided >= self.window {
            self.judge();
        }
    }

    /// One was decided again.
    pub fn repaired(&mut self) {
        self.early += u64::from(!self.waits());
    }

    fn judge(&mut self) {
        if self.early * 2 > self.decided {
            self.runs = 0;
        } else if self.early * 8 < self.decided {
            self.runs = self.most;
        }
        (self.decided, self.early) = (0, 0);
    }
}
