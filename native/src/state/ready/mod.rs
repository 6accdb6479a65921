//! Ready-made functions over rows: the mirror of `model/ready.py`. What is not an everyday case gives None,
//! and the Python function is called.

mod combine;
mod emit;
mod known;

pub use combine::{combine, Combine};
pub use emit::{emit, Emit};
pub use known::{number, put_known, Known};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

type Described<'py> = Bound<'py, PyTuple>;

fn name_of(described: &Described<'_>) -> PyResult<String> {
    described.get_item(0)?.extract()
}

fn unknown<T>(what: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("{what} is no ready-made function")))
}
