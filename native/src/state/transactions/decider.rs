//! Decider: the functions of a graph's transactions, called with the rows that they see; the mirror of
//! `transaction.decide`.
//!
//! In debug mode, where each of them runs twice, Python does all of it and asks the view for rows alone.
//!
//! Does not: know what an exception means. Whatever a function raises is handed to Python, with the function that is
//! to be blamed.

use crate::meta::Meta;
use crate::payload::attribute::Attribute;
use crate::payload::decoding;
use crate::payload::plans::Plan;
use crate::python::reference;
use crate::state::accumulators::encoded;
use crate::state::transactions::pending::RowKey;
use crate::state::transactions::view::{Reads, RowTable, Run, View};
use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};
use pyo3::{ffi, intern};

/// The rows that a run has written, and what stands there now; None: they are no more.
pub type Writes = Vec<(RowKey, Option<Py<PyAny>>)>;

/// What a run has given, written and read.
pub struct Decided {
    pub result: Py<PyAny>,
    pub writes: Writes,
    pub read: Reads,
}

pub struct Decider {
    view: Py<View>,
    /// `user_code.decided`: (the rows below, a transaction) -> its result, and what it has written.
    decide: Py<PyAny>,
    /// None in debug mode.
    functions: Option<Functions>,
}

/// What is needed to decide without `decide`.
pub struct Functions {
    pub users: Vec<Py<PyAny>>,
    /// `user_code.refused`: (the function that raised, its error, a transaction) -> the result of that. None: nobody's
    /// function did.
    pub refused: Py<PyAny>,
    /// `process.Side`: the number of a transaction's function, and its item.
    pub number: Attribute,
    pub item: Attribute,
    pub write: &'static Plan,
    pub decision: &'static Plan,
    pub aborted: &'static Plan,
    /// `transaction.CHECK`.
    pub check: Py<PyAny>,
}

impl Decider {
    pub fn new(view: Py<View>, decide: Py<PyAny>, functions: Option<Functions>) -> Self {
        Decider { view, decide, functions }
    }

    /// Decide a transaction by the rows below its place. They are taken for as long as that lasts.
    pub fn decided(&mut self, rows: &mut RowTable, meta: Meta, item: &Bound<'_, PyAny>) -> PyResult<Decided> {
        let py = item.py();
        self.have_view_alone(py)?;
        let view = self.view.bind(py);
        view.borrow_mut().run = Some(Run::new(std::mem::take(rows), meta));
        let decided = match &self.functions {
            Some(functions) => functions.decided(view, item),
            None => self.asked(view, item),
        };
        let mut run = view.borrow_mut().run.take().expect("nobody else ends it");
        std::mem::swap(rows, &mut run.rows);
        let (result, writes) = decided?;
        Ok(Decided { result, writes, read: run.read() })
    }

    /// Whoever holds the view of an earlier run keeps that; the next has another.
    fn have_view_alone(&mut self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: it is alive, and the GIL is held.
        if unsafe { ffi::Py_REFCNT(self.view.as_ptr()) } > 1 {
            let made = self.view.borrow(py).another(py);
            self.view = Py::new(py, made)?;
        }
        Ok(())
    }

    fn asked(&self, view: &Bound<'_, View>, item: &Bound<'_, PyAny>) -> PyResult<(Py<PyAny>, Writes)> {
        let py = item.py();
        let decided = self.decide.bind(py).call1((view, item))?;
        let (result, writes): (Py<PyAny>, Vec<Bound<'_, PyAny>>) = decided.extract()?;
        let written = |written: &Bound<'_, PyAny>| {
            let (row, write) = (encoded(&written.get_item(0)?)?, written.get_item(1)?);
            let is_deleted = write.getattr(intern!(py, "deleted"))?.is_truthy()?;
            let after = if is_deleted { None } else { Some(write.getattr(intern!(py, "after"))?.unbind()) };
            Ok((RowKey::from_vec(row), after))
        };
        Ok((result, writes.iter().map(written).collect::<PyResult<_>>()?))
    }
}

/// A row that is another than before: its table's number, its key, its value before and after, and is it deleted?
type Changed<'py> = (usize, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, bool);

impl Functions {
    fn decided(&self, view: &Bound<'_, View>, side: &Bound<'_, PyAny>) -> PyResult<(Py<PyAny>, Writes)> {
        let py = side.py();
        let (number, item) = (self.number.of(side)?, self.item.of(side)?);
        let function = &self.users[number.extract::<usize>()?];
        let result = match function.bind(py).call1((view, &item)) {
            Ok(result) => match reference::check(&result) {
                Ok(()) => result,
                Err(error) => return self.refused(py, Some(function), error, side),
            },
            Err(error) => return self.refused(py, Some(function), error, side),
        };
        let (changed, writes) = changes(view)?;
        for (table, key, _, after, _) in changed.iter().filter(|(.., is_deleted)| !is_deleted) {
            let Some(check) = view.borrow().tables.check(py, *table) else { continue };
            let allowed = match check.bind(py).call1((key, after)) {
                Ok(allowed) => allowed.is_truthy(),
                Err(error) => return self.refused(py, Some(&check), error, side),
            };
            match allowed {
                Ok(true) => {}
                Ok(false) => {
                    let (reason, name) = (self.check.bind(py).clone(), view.borrow().tables.name(py, *table));
                    let aborted = made(py, self.aborted, vec![item, reason, name, key.clone()])?;
                    return self.told(side, number, aborted, Vec::new(), true, Vec::new());
                }
                Err(error) => return self.refused(py, None, error, side),
            }
        }
        let write = |(table, key, before, after, is_deleted)| {
            let is_deleted = PyBool::new(py, is_deleted).to_owned().into_any();
            made(py, self.write, vec![view.borrow().tables.name(py, table), key, before, after, is_deleted])
        };
        let changed = changed.into_iter().map(write).collect::<PyResult<_>>()?;
        self.told(side, number, result, changed, false, writes)
    }

    /// The result of a transaction, `(number, Decision)`.
    fn told<'py>(
        &self,
        side: &Bound<'py, PyAny>,
        number: Bound<'py, PyAny>,
        result: Bound<'py, PyAny>,
        changed: Vec<Bound<'py, PyAny>>,
        aborted: bool,
        writes: Writes,
    ) -> PyResult<(Py<PyAny>, Writes)> {
        let py = side.py();
        let changed = PyTuple::new(py, changed)?.into_any();
        let aborted = PyBool::new(py, aborted).to_owned().into_any();
        let told =
            PyTuple::new(py, [number, made(py, self.decision, vec![result, changed, aborted])?])?.into_any();
        match reference::check(&told) {
            Ok(()) => Ok((told.unbind(), writes)),
            Err(error) => self.refused(py, None, error, side),
        }
    }

    fn refused(
        &self,
        py: Python<'_>,
        function: Option<&Py<PyAny>>,
        error: PyErr,
        side: &Bound<'_, PyAny>,
    ) -> PyResult<(Py<PyAny>, Writes)> {
        if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
            return Err(error);
        }
        let result = self.refused.bind(py).call1((function, error.into_value(py), side))?;
        Ok((result.unbind(), Vec::new()))
    }
}

/// The rows that are another than before, in the order in which they were first written.
fn changes<'py>(view: &Bound<'py, View>) -> PyResult<(Vec<Changed<'py>>, Writes)> {
    let (py, view) = (view.py(), view.borrow());
    let run = view.run.as_ref().expect("it lasts");
    let (mut changed, mut writes) = (Vec::new(), Vec::new());
    for place in &run.written {
        let row = &run.touched[*place];
        let (before, now) = (row.before.bind(py), row.now.bind(py));
        let has_changed =
            if row.is_deleted { row.is_below } else { !before.is(now) && encoded(before)? != encoded(now)? };
        if has_changed {
            changed.push((row.table, row.key.bind(py).clone(), before.clone(), now.clone(), row.is_deleted));
            writes.push((row.row.clone(), (!row.is_deleted).then(|| row.now.clone_ref(py))));
        }
    }
    Ok((changed, writes))
}

fn made<'py>(
    py: Python<'py>,
    plan: &'static Plan,
    values: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    decoding::made(py, plan, values)
        .ok_or_else(|| PyAssertionError::new_err("a class of ours is made natively"))
}
