//! Values of a Vector, from any place on, and how deep they nest.

use crate::payload::encoding::Unsupported;
use crate::payload::vector::layout::{in_tail, item, layout, len, size, tail_item, BITS};
use crate::python::objects::Object;
use crate::python::slots;
use pyo3::ffi;

/// How deep a Vector nests, if it fits `room`.
/// SAFETY: `object` is a Vector that is alive.
pub unsafe fn height(object: Object, room: i32) -> Result<i32, Unsupported> {
    let layout = layout().ok_or(Unsupported)?;
    let counts = len(slots::get(object, layout.counts)) as i32;
    if counts >= room {
        Err(Unsupported)
    } else {
        Ok(counts + 1)
    }
}

/// Call `each` with every value from place `start` on.
/// SAFETY: `object` is a Vector that is alive, and `each` does not change it.
pub unsafe fn values_from(
    object: Object,
    start: usize,
    each: &mut dyn FnMut(Object) -> Result<(), Unsupported>,
) -> Result<(), Unsupported> {
    let layout = layout().ok_or(Unsupported)?;
    let (root, tail) = (slots::get(object, layout.root), slots::get(object, layout.tail));
    let level = ffi::PyLong_AsSsize_t(slots::get(object, layout.level)) as usize;
    let length = in_tail(size(object)?);
    let in_trie = size(object)? - length;
    if start < in_trie {
        below(root, level, 0, start, each)?;
    }
    for place in start.saturating_sub(in_trie)..length {
        each(tail_item(tail, place))?;
    }
    Ok(())
}

/// The values of a node whose first is at `first`, from `start` on. Level 0 is a leaf.
/// SAFETY: `node` is a tuple of a Vector's trie, at this level, and alive.
unsafe fn below(
    node: Object,
    level: usize,
    first: usize,
    start: usize,
    each: &mut dyn FnMut(Object) -> Result<(), Unsupported>,
) -> Result<(), Unsupported> {
    let span = 1 << (BITS * level);
    for place in 0..len(node) {
        let at = first + place * span;
        if at + span <= start {
            continue;
        }
        if level == 0 {
            each(item(node, place))?
        } else {
            below(item(node, place), level - 1, at, start, each)?
        }
    }
    Ok(())
}
