//! FlameStream's hot paths in native code. Every module mirrors one Python module, which is the reference: the same calls give the same
//! results, and whatever is not an everyday case is handed to it.

mod answers;
mod arenas;
mod barrier;
mod buffers;
mod codec;
mod columns;
mod decoding;
mod describe;
mod disk;
mod doors;
mod encoding;
mod flow;
mod flow_doors;
mod flow_rows;
mod folded;
mod grouping;
mod keyed;
mod meta;
mod outgoing;
mod outlook;
mod passes;
mod plans;
mod ready;
mod reduce;
mod reference;
mod rounds;
mod row;
mod slots;
mod stages;
mod vector;

use pyo3::prelude::*;

/// The kernel's own objects: a tenth less a record than malloc, and more where the state is large.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _kernel {
    #[pymodule_export]
    use crate::arenas::huge_arenas;
    #[pymodule_export]
    use crate::barrier::{Barrier, Queue, Released};
    #[pymodule_export]
    use crate::codec::{check, checked_size, decode, decode_items, decode_many, encode, encode_item, encode_items, encode_many, height_of};
    #[pymodule_export]
    use crate::disk::Disk;
    #[pymodule_export]
    use crate::flow::Flow;
    #[pymodule_export]
    use crate::plans::register;
    #[pymodule_export]
    use crate::reduce::delta;
    #[pymodule_export]
    use crate::reference::refer_to;
    #[pymodule_export]
    use crate::vector::{install_vector, restored};
}
