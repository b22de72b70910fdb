//! Failures that are typical of queue servers, provoked on the whole binary.

mod contention;
mod damage;
mod limits;
mod shutdown;
mod skew;
mod wakes;
