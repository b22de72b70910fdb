//! The oracle is held to the rules that it is the measure of, which checks the suite too.

mod access;
mod conformance;
mod differential;
mod faults;
mod flow;
mod flow_mutants;
mod history;
mod hook;
mod hook_mutants;
mod mutants;
mod suite;
