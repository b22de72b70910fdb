//! The HTTP API: routes that parse requests, call services and render responses.
//!
//! # Where it sits
//! Above the queue, workflow and webhook services, below the binary. This is the only crate that
//! deals with JSON wire types, HTTP statuses and OpenAPI.
//!
//! # Invariants
//! * A request is validated once, in this crate; the services receive typed commands.
//! * Domain errors are mapped to HTTP statuses in one file, `error.rs`.
//! * Every route is in the OpenAPI document and has an access policy.

#![cfg_attr(
    not(test),
    allow(unused_imports, reason = "types used only by the OpenAPI document; tests lint them")
)]

// Routes and wire types carry `utoipa` attributes. Only the unit tests of this crate generate the
// OpenAPI document from them.
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
pub use state::{Apis, AppState, HttpSettings, install_metrics};
pub use tls::{Certificates, TlsFiles};
pub use wire::options::{parse_options, render_options};
