//! The whole binary: real processes, real sockets, a real PostgreSQL.

mod access;
mod clients;
mod costs;
mod crash;
mod encryption;
mod herd;
mod hook;
mod hook_crash;
mod hook_history;
mod hook_idle;
mod hook_listen;
mod hook_nodes;
mod hook_routes;
mod hostile;
mod idle;
mod listener;
mod modes;
mod nodes;
mod own_tls;
mod rolling;
mod serve;
mod support;
mod tls;
mod transactions;
mod traps;
