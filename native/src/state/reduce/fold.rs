//! Fold: the functions of one reduce, called one after the other.
//!
//! Keeps: what one of them raises, or gives that is no payload, becomes an error value. A combine that fails
//! leaves the accumulator as it was.

use crate::python::reference::Tools;
use pyo3::prelude::*;

/// The functions of one reduce.
pub struct Fold {
    pub initial: Py<PyAny>,
    pub combine: Py<PyAny>,
    pub emit: Option<Py<PyAny>>,
    /// The user's functions, which messages name; in debug mode the callables above are wrapped.
    pub users_initial: Py<PyAny>,
    pub users_combine: Py<PyAny>,
    pub users_emit: Option<Py<PyAny>>,
    /// `user_code.NOTHING`, and collections, which check themselves.
    pub nothing: Py<PyAny>,
    pub self_checked: Vec<usize>,
}

type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Fold {
    /// Has nothing been combined for the key yet?
    pub fn is_nothing(&self, accumulator: &Bound<'_, PyAny>) -> bool {
        accumulator.get_type().is(self.nothing.bind(accumulator.py()).get_type())
    }

    /// Take a step: the accumulator after it and its result, either of which may be what an error left or
    /// became.
    pub fn step<'py>(
        &self,
        tools: &Tools,
        before: Option<Bound<'py, PyAny>>,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Pair<'py>> {
        let py = payload.py();
        let nothing = self.nothing.bind(py);
        let (before, kept) = match before {
            Some(before) if !self.is_nothing(&before) => (before.clone(), before),
            _ => match self.initial.bind(py).call0() {
                Ok(made) => (made, nothing.clone()),
                Err(error) => {
                    return Ok((nothing.clone(), tools.error_of(&self.users_initial, error, payload)?))
                }
            },
        };
        let after = match self.combine.bind(py).call1((before, payload)) {
            Ok(after) => after,
            Err(error) => return Ok((kept, tools.error_of(&self.users_combine, error, payload)?)),
        };
        if !self.self_checked.contains(&(after.get_type().as_ptr() as usize)) {
            if let Err(error) = tools.check(&after) {
                return Ok((kept, tools.error_of(&self.users_combine, error, payload)?));
            }
        }
        let (Some(emit), Some(users_emit)) = (&self.emit, &self.users_emit) else {
            return Ok((after.clone(), after));
        };
        let result = match emit.bind(py).call1((&after, payload)) {
            Ok(result) => match tools.check(&result) {
                Ok(()) => result,
                Err(error) => tools.error_of(users_emit, error, payload)?,
            },
            Err(error) => tools.error_of(users_emit, error, payload)?,
        };
        Ok((after, result))
    }
}
