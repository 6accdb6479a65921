//! Signs: what stands between two values.
//!
//! Keeps: what is computed here is what Python computes. Does not: overflow, or divide by zero; Python's own
//! signs are used where 64 bits do not do.

use crate::payload::expression::values::Value::{self, Bool, Float, Int};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;

#[derive(Clone, Copy)]
pub(super) enum Sign {
    Plus,
    Minus,
    Times,
    Over,
    FloorOver,
    Rest,
    And,
    Or,
    Compare(CompareOp),
}

impl Sign {
    pub(super) fn of<'py>(self, py: Python<'py>, left: Value<'py>, right: Value<'py>) -> Option<Value<'py>> {
        if let Some(value) = self.known(&left, &right) {
            return Some(value);
        }
        let (left, right) = (left.object(py)?, right.object(py)?);
        let made = match self {
            Sign::Plus => left.add(right),
            Sign::Minus => left.sub(right),
            Sign::Times => left.mul(right),
            Sign::Over => left.div(right),
            Sign::FloorOver => left.floor_div(right),
            Sign::Rest => left.rem(right),
            Sign::Compare(compare) => left.rich_compare(right, compare),
            Sign::And | Sign::Or => return None,
        };
        made.ok().map(Value::of)
    }

    /// The result for numbers and truth values, where this gives what Python gives.
    fn known<'py>(self, left: &Value<'py>, right: &Value<'py>) -> Option<Value<'py>> {
        match (self, left, right) {
            (Sign::And, Bool(left), Bool(right)) => Some(Bool(*left && *right)),
            (Sign::Or, Bool(left), Bool(right)) => Some(Bool(*left || *right)),
            (Sign::Compare(compare), Int(left), Int(right)) => Some(Bool(compare.matches(left.cmp(right)))),
            (_, Int(left), Int(right)) if !matches!(self, Sign::Over) => self.of_ints(*left, *right),
            _ => self.of_floats(left.exact()?, right.exact()?),
        }
    }

    fn of_ints<'py>(self, left: i64, right: i64) -> Option<Value<'py>> {
        match self {
            Sign::Plus => left.checked_add(right),
            Sign::Minus => left.checked_sub(right),
            Sign::Times => left.checked_mul(right),
            // Rust's quotient is cut off, Python's rounded down.
            Sign::FloorOver => {
                let rest = left.checked_rem(right)?;
                Some(left / right - i64::from(rest != 0 && (rest < 0) != (right < 0)))
            }
            Sign::Rest => {
                let rest = left.checked_rem(right)?;
                Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
            }
            _ => None,
        }
        .map(Int)
    }

    fn of_floats<'py>(self, left: f64, right: f64) -> Option<Value<'py>> {
        Some(match self {
            Sign::Plus => Float(left + right),
            Sign::Minus => Float(left - right),
            Sign::Times => Float(left * right),
            Sign::Over if right != 0.0 => Float(left / right),
            Sign::Compare(CompareOp::Eq) => Bool(left == right),
            Sign::Compare(CompareOp::Ne) => Bool(left != right),
            Sign::Compare(CompareOp::Lt) => Bool(left < right),
            Sign::Compare(CompareOp::Le) => Bool(left <= right),
            Sign::Compare(CompareOp::Gt) => Bool(left > right),
            Sign::Compare(CompareOp::Ge) => Bool(left >= right),
            _ => return None,
        })
    }
}
