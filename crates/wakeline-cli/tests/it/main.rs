//! The whole binary: real processes, real sockets, a real PostgreSQL.

mod clients;
mod costs;
mod crash;
mod herd;
mod hook;
mod idle;
mod listener;
mod modes;
mod nodes;
mod serve;
mod support;
mod tls;
mod traps;
