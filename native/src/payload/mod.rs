//! Payloads: their canonical encoding, as rows and as columns; the mirror of `model/payloads/encoding.py`.

pub mod attribute;
pub mod codec;
pub mod columns;
pub mod decoding;
pub mod encoding;
pub mod event_time;
pub mod expression;
pub mod field;
pub mod plans;
pub mod row;
pub mod vector;
