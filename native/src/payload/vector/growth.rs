//! Growth: whether a Vector is another one and what was appended to it.

use crate::payload::encoding::Unsupported;
use crate::payload::vector::layout::{in_tail, item, layout, len, size, tail_item, BITS, WIDTH};
use crate::python::objects::Object;
use crate::python::slots;
use pyo3::ffi;

/// Does `new` begin with the very objects that `old` holds? Structure that both share is not looked into.
/// SAFETY: both are Vectors that are alive.
pub unsafe fn grew(old: Object, new: Object) -> Result<bool, Unsupported> {
    let layout = layout().ok_or(Unsupported)?;
    let (before, after) = (size(old)?, size(new)?);
    if before > after {
        return Ok(false);
    }
    let (old_tail, new_tail) = (slots::get(old, layout.tail), slots::get(new, layout.tail));
    let (old_trie, new_trie) = (before - in_tail(before), after - in_tail(after));
    let old_level = ffi::PyLong_AsSsize_t(slots::get(old, layout.level)) as usize;
    let mut level = ffi::PyLong_AsSsize_t(slots::get(new, layout.level)) as usize;
    let mut root = slots::get(new, layout.root);
    if old_trie > 0 {
        let mut first = root;
        // a trie grows at its root: the older one is its leftmost part
        for _ in old_level..level {
            first = item(first, 0);
        }
        if !begins(slots::get(old, layout.root), first, old_level) {
            return Ok(false);
        }
    }
    // the older tail has become a leaf since, the first one behind the older trie
    if new_trie > old_trie {
        while level > 0 {
            root = item(root, old_trie >> (BITS * level) & (WIDTH - 1));
            level -= 1;
        }
        return Ok((0..in_tail(before)).all(|place| tail_item(old_tail, place) == item(root, place)));
    }
    Ok(old_tail == new_tail
        || (0..in_tail(before)).all(|place| tail_item(old_tail, place) == tail_item(new_tail, place)))
}

/// Are the values of `old` the first ones of `new`, node by node?
/// SAFETY: as `below`, of both.
unsafe fn begins(old: Object, new: Object, level: usize) -> bool {
    if old == new {
        return true;
    }
    if len(old) > len(new) {
        return false;
    }
    (0..len(old)).all(|place| {
        let (one, other) = (item(old, place), item(new, place));
        one == other || (level > 0 && begins(one, other, level - 1))
    })
}
