//! Routes without their OpenAPI documentation, as the server runs them.

use axum::Router;
use axum::routing::MethodRouter;
pub(super) use utoipa::routes;

use crate::state::AppState;

/// A collection of routes; replaces `OpenApiRouter` outside of the unit tests.
#[derive(Default)]
pub(super) struct UndocumentedRoutes(Router<AppState>);

impl UndocumentedRoutes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn merge(self, other: Self) -> Self {
        Self(self.0.merge(other.0))
    }

    /// Adds the handlers of one path, as [`routes`] lists them.
    pub(super) fn routes(self, (path, handlers): (&str, MethodRouter<AppState>)) -> Self {
        Self(self.0.route(path, handlers))
    }
}

impl From<UndocumentedRoutes> for Router<AppState> {
    fn from(routes: UndocumentedRoutes) -> Self {
        routes.0
    }
}
