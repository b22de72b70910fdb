//! Runs all suites against the oracle, which checks the suites themselves too.

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
