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

mod access;
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
pub use error::{ApiError, Problem};
pub use routes::{app, openapi};
pub use server::{Server, ServerOptions};
pub use state::{AppState, Faces, HttpSettings, install_metrics};
pub use tls::{Certificates, TlsFiles};
