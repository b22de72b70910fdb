//! The integration tests of orchestrations, in one binary.

mod basics;
mod cancelling;
mod choosing;
mod closing;
mod deciding;
mod deploying;
mod fan_in;
mod faults;
mod logging;
mod mailboxes;
mod mismatching;
mod nondeterminism;
mod outages;
mod prefetch;
mod random_programs;
mod registering;
mod routing;
mod runtime;
mod script;
mod shutdown;
mod slots;
mod unclaimed;
mod wording;
