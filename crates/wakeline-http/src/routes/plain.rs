//! Routes without their documentation.

use axum::Router;
use axum::routing::MethodRouter;
pub(super) use utoipa::routes;

use crate::state::AppState;

/// Routes that are being put together.
#[derive(Default)]
pub(super) struct Routes(Router<AppState>);

impl Routes {
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

impl From<Routes> for Router<AppState> {
    fn from(routes: Routes) -> Self {
        routes.0
    }
}
