//! The HTTP face: routes that parse, call and render.
//!
//! # Where it sits
//! Above the services of the faces, below the binary. The only crate that knows JSON wire types,
//! HTTP statuses and OpenAPI.
//!
//! # Invariants
//! * A request is validated once, here; what goes down is typed.
//! * Domain errors become statuses in one file, `error.rs`.
//! * Every route is in the OpenAPI document and has an access policy.

#![cfg_attr(
    not(test),
    allow(unused_imports, reason = "types that only the OpenAPI document names; tests lint them")
)]

// Routes and wire types carry the attributes of `utoipa`. Only this crate's unit tests make the
// OpenAPI document of them.
#[cfg(not(test))]
extern crate wakeline_http_macros as utoipa;

mod access;
mod browser;
mod cors;
mod docs;
mod error;
mod input;
mod render;
mod routes;
mod server;
mod socket;
mod state;
mod tls;
mod wire;

#[doc(hidden)]
pub use access::policy_of;
pub use docs::openapi;
pub use error::{ApiError, Problem};
pub use routes::app;
pub use server::{Server, ServerOptions};
pub use state::{AppState, Faces, HttpSettings, install_metrics};
pub use tls::{Certificates, TlsFiles};
pub use wire::options::{parse_options, render_options};
