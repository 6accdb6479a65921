//! FlameStream's hot paths in native code. Every module mirrors one Python module, which is the reference:
//! the same calls give the same results, and whatever is not an everyday case is handed to it.

mod barrier;
mod delivery;
mod disk;
mod flow;
mod meta;
mod payload;
mod python;
mod state;

use pyo3::prelude::*;

/// The kernel's own objects: a tenth less a record than malloc, and more where the state is large.
#[cfg(not(test))] // a sanitizer has its own
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _kernel {
    /// The version of the calls between Python and the kernel: `model/kernel.py` has the same number and
    /// refuses another.
    #[pymodule_export]
    const API: u32 = 11;
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use crate::barrier::{Barrier, Released};
    #[pymodule_export]
    use crate::delivery::Queue;
    #[pymodule_export]
    use crate::disk::Disk;
    #[pymodule_export]
    use crate::flow::Flow;
    #[pymodule_export]
    use crate::payload::codec::{
        check, checked_size, decode, decode_items, decode_many, encode, encode_item, encode_items,
        encode_many, height_of,
    };
    #[pymodule_export]
    use crate::payload::event_time::{event_times, microseconds};
    #[pymodule_export]
    use crate::payload::expression::evaluated;
    #[pymodule_export]
    use crate::payload::plans::{forget, register};
    #[pymodule_export]
    use crate::payload::vector::{install_vector, restored};
    #[pymodule_export]
    use crate::python::arenas::huge_arenas;
    #[pymodule_export]
    use crate::python::reference::refer_to;
    #[pymodule_export]
    use crate::state::accumulators::delta;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        crate::python::moments::begin();
        crate::state::transactions::View::begin(module.py())
    }
}
