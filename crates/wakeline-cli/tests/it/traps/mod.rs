//! Ways in which systems of this kind fail, tried on the whole binary.

mod contention;
mod damage;
mod limits;
mod shutdown;
mod skew;
mod wakes;
