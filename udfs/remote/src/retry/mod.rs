//! When a request that failed is sent again.

pub mod after;
pub mod http_date;
pub mod schedule;
