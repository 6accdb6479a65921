//! Decoding payloads: the mirror of `model/payloads/encoding.py`. Whatever is not a payload gives
//! `Unsupported`; the Python reference explains.

mod instances;
mod reader;
mod values;

pub use instances::made;
pub use reader::Reader;

use crate::payload::encoding::Unsupported;
use pyo3::prelude::*;

type Value<'py> = Result<Bound<'py, PyAny>, Unsupported>;
