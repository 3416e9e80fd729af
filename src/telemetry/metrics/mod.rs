//! What a collector of metrics reads: times as they are counted, Prometheus' text format (version 0.0.4), and as much of
//! HTTP as it takes to hand out a page of it.
//!
//! Pure: it opens nothing and reads no clock. What is counted, and under which names, is for those who count.

mod histogram;
mod http;
mod page;

pub use histogram::BOUNDS;
pub use histogram::Histogram;
pub use http::LONGEST_HEAD;
pub use http::OK;
pub use http::Request;
pub use http::UNAVAILABLE;
pub use http::put_response;
pub use page::CLASSES;
pub use page::Page;
