//! The identity of a caller.

use std::sync::Arc;

use wakeline_core::{Scope, Scopes};

/// The identity of a caller, and what it may do. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    inner: Arc<CallerInner>,
}

#[derive(Debug, PartialEq, Eq)]
struct CallerInner {
    actor: String,
    producer: Option<String>,
    scopes: Scopes,
}

impl Caller {
    pub(crate) fn new(actor: String, producer: Option<String>, scopes: Scopes) -> Self {
        Self { inner: Arc::new(CallerInner { actor, producer, scopes }) }
    }

    /// Returns the caller of a request without credentials on a server that requires none.
    pub fn anyone() -> Self {
        Self::new("anonymous".to_owned(), None, Scopes::new(vec![Scope::everything()]))
    }

    /// Returns the caller that bears the key in the settings.
    pub(crate) fn of_settings() -> Self {
        Self::new("api_key".to_owned(), None, Scopes::new(vec![Scope::everything()]))
    }

    /// Returns the caller's name in the audit log: `key:NAME`, `jwt:SUBJECT`, `api_key` or
    /// `anonymous`.
    pub fn actor(&self) -> &str {
        &self.inner.actor
    }

    /// Returns the producer that is stored with the caller's messages: a token's subject, or
    /// `key:NAME`.
    pub fn producer(&self) -> Option<&str> {
        self.inner.producer.as_deref()
    }

    /// Returns the caller's permissions.
    pub fn scopes(&self) -> &Scopes {
        &self.inner.scopes
    }
}
