//! Orchestrations in one binary.

mod basics;
mod cancelling;
mod choosing;
mod closing;
mod crowds;
mod deciding;
mod deploying;
mod faults;
mod foreign;
mod leaving;
mod logging;
mod mailboxes;
mod mismatching;
mod outages;
mod prefetch;
mod random_programs;
mod registering;
mod routing;
mod runtime;
mod script;
mod slots;
mod unclaimed;
mod wording;
