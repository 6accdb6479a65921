//! Keyed state: buckets, what is grouped and folded in them, and ready-made functions over rows.

pub mod accumulators;
pub mod buckets;
pub mod folded;
pub mod grouping;
pub mod keyed;
pub mod matching;
pub mod ready;
pub mod reduce;
pub mod rows;
pub mod shards;
pub mod transactions;
