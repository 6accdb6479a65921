//! Metas as inline bytes: the mirror of `model/meta.py`.

use smallvec::SmallVec;

/// Long enough for a time and five to ten steps without touching the heap.
pub type Meta = SmallVec<[u8; 24]>;
/// The floor of a time: less than every meta at it or later.
pub type Floor = [u8; 8];

/// The time of the run that an item descends from.
pub fn time_of(meta: &[u8]) -> u64 {
    meta.get(..8).map_or(0, |time| u64::from_be_bytes(time.try_into().expect("eight bytes")))
}

fn push_component(meta: &mut Meta, index: u64) {
    if index < 1 << 7 {
        meta.push(index as u8);
    } else if index < 1 << 14 {
        meta.extend_from_slice(&(0x8000 | index as u16).to_be_bytes());
    } else if index < 1 << 21 {
        meta.extend_from_slice(&(0xC0_0000 | index as u32).to_be_bytes()[1..]);
    } else if index < 1 << 28 {
        meta.extend_from_slice(&(0xE000_0000 | index as u32).to_be_bytes());
    } else {
        assert!(index < 1 << 35, "{index} siblings do not fit a trace");
        meta.extend_from_slice(&(0xF0_0000_0000 | index).to_be_bytes()[3..]);
    }
}

/// The meta of the `index`-th child.
#[inline]
pub fn child(parent: &Meta, index: usize) -> Meta {
    let mut meta = parent.clone();
    push_component(&mut meta, index as u64);
    meta
}

/// How many bytes a component has, by its first.
fn length(first: u8) -> usize {
    match first {
        0..=0x7f => 1,
        0x80..=0xbf => 2,
        0xc0..=0xdf => 3,
        0xe0..=0xef => 4,
        _ => 5,
    }
}

/// The meta of the record that an item descends from.
pub fn record_of(meta: &[u8]) -> &[u8] {
    &meta[..8 + length(meta[8])]
}

/// How many steps a trace has.
pub fn components(meta: &[u8]) -> usize {
    let (mut count, mut at) = (0, 8);
    while at < meta.len() {
        at += length(meta[at]);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Indices of each length: the last below and the first above each border.
    const INDICES: [usize; 10] =
        [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455, 268_435_456, (1 << 35) - 1];

    fn of(time: u64) -> Meta {
        Meta::from_slice(&time.to_be_bytes())
    }

    #[test]
    fn children_are_ordered_as_their_indices_and_behind_their_parent() {
        let parent = of(7);
        let metas: Vec<Meta> = INDICES.iter().map(|index| child(&parent, *index)).collect();
        assert!(metas.windows(2).all(|pair| pair[0][..] < pair[1][..]));
        assert!(metas.iter().all(|meta| parent[..] < meta[..] && meta[..] < of(8)[..]));
    }

    #[test]
    fn a_trace_has_a_component_a_step() {
        let deepest = INDICES.iter().fold(of(7), |meta, index| child(&meta, *index));
        assert_eq!(components(&deepest), INDICES.len());
        assert_eq!(time_of(&deepest), 7);
        assert!(INDICES
            .iter()
            .all(|index| record_of(&child(&child(&of(7), *index), 3)) == &child(&of(7), *index)[..]));
    }

    #[test]
    #[should_panic(expected = "siblings do not fit a trace")]
    fn an_index_that_does_not_fit_is_never_cut_off() {
        child(&of(0), 1 << 35);
    }

    #[test]
    fn what_is_too_short_has_time_zero() {
        assert_eq!((time_of(b"short"), components(b"short")), (0, 0));
    }
}
