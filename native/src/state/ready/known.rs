//! Known accumulators: those that need no Python object.

use crate::payload::encoding;
use crate::payload::vector;

/// A list's values stand in its bucket, one behind the other.
#[derive(Clone, Copy, PartialEq)]
pub enum Known {
    List { count: usize, end: usize },
    Int(i128),
    Float(f64),
}

/// The number that an encoding is. A truth value counts, as in Python.
pub fn number(encoded: &[u8]) -> Option<Known> {
    let (first, rest) = encoded.split_first()?;
    let unsigned = || rest.iter().fold(0u64, |value, byte| value << 8 | *byte as u64);
    Some(match (first, rest.len()) {
        (0x00..=0x7f, 0) => Known::Int(*first as i128),
        (0xe0..=0xff, 0) => Known::Int(*first as i8 as i128),
        (0xc2, 0) => Known::Int(0),
        (0xc3, 0) => Known::Int(1),
        (0xcc, 1) | (0xcd, 2) | (0xce, 4) | (0xcf, 8) => Known::Int(unsigned() as i128),
        (0xd0, 1) => Known::Int(unsigned() as i8 as i128),
        (0xd1, 2) => Known::Int(unsigned() as i16 as i128),
        (0xd2, 4) => Known::Int(unsigned() as i32 as i128),
        (0xd3, 8) => Known::Int(unsigned() as i64 as i128),
        (0xcb, 8) => Known::Float(f64::from_bits(unsigned())),
        _ => return None,
    })
}

/// The canonical encoding of an accumulator.
pub fn put_known(out: &mut Vec<u8>, known: Known, values: &[u8]) {
    match known {
        Known::List { count, end } => {
            encoding::put_array(out, count + 1);
            encoding::put_unsigned(out, vector::VECTOR_TAG);
            out.extend_from_slice(&values[..end]);
        }
        Known::Int(value) => match i64::try_from(value) {
            Ok(value) => encoding::put_int(out, value),
            Err(_) => encoding::put_unsigned(out, value as u64),
        },
        Known::Float(value) => encoding::put_float(out, value),
    }
}

pub(super) fn in_range(value: i128) -> Option<Known> {
    (i64::MIN as i128..=u64::MAX as i128).contains(&value).then_some(Known::Int(value))
}

pub(super) fn added(one: Known, other: Known) -> Option<Known> {
    match (one, other) {
        (Known::Int(one), Known::Int(other)) => in_range(one + other),
        (Known::Float(one), Known::Float(other)) => Some(Known::Float(one + other)),
        (Known::Int(one), Known::Float(other)) => Some(Known::Float(one as f64 + other)),
        (Known::Float(one), Known::Int(other)) => Some(Known::Float(one + other as f64)),
        _ => None,
    }
}
