//! The routes, and the OpenAPI document that lists them.

mod ack;
mod configure;
mod flow;
mod groups;
mod health;
mod messages;
mod pop;
mod push;
mod transaction;

use axum::Router;
use axum::middleware;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access;
use crate::error::ApiError;
use crate::state::AppState;

/// What the document says besides its routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Wakeline",
        description = "Durable queues and orchestrations on PostgreSQL or SQLite. Nobody polls."
    ),
    tags(
        (name = "queue", description = "Push, pop, settle"),
        (name = "queues", description = "Configuration and inspection"),
        (name = "orchestrations", description = "Start, signal, watch and steer orchestrations"),
        (name = "operation", description = "Health and metrics"),
    )
)]
struct Frame;

/// The whole HTTP face over a state. Works without a socket.
pub fn app(state: AppState) -> Router {
    let (router, _) = parts();
    router
        .fallback(|| async { ApiError::not_found("there is no such route; see /docs") })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(middleware::from_fn_with_state(state.clone(), access::guard))
        .with_state(state)
}

/// The OpenAPI document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let (_, mut document) = parts();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    document.components.get_or_insert_default().add_security_scheme("apiKey", scheme);
    document
}

fn parts() -> (Router<AppState>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Frame::openapi())
        .routes(routes!(push::push))
        .routes(routes!(pop::pop_filtered))
        .routes(routes!(pop::pop_queue))
        .routes(routes!(pop::pop_partition))
        .routes(routes!(ack::ack))
        .routes(routes!(ack::ack_batch))
        .routes(routes!(ack::extend))
        .routes(routes!(transaction::transaction))
        .routes(routes!(configure::configure))
        .routes(routes!(configure::queue, configure::delete_queue))
        .routes(routes!(groups::groups))
        .routes(routes!(groups::group, groups::delete_group))
        .routes(routes!(groups::delete_group_of_queue))
        .routes(routes!(groups::subscription))
        .routes(routes!(messages::dead_letters))
        .routes(routes!(messages::message))
        .routes(routes!(flow::start, flow::read::list))
        .routes(routes!(flow::manage::purge))
        .routes(routes!(flow::manage::prune))
        .routes(routes!(flow::instance, flow::manage::delete))
        .routes(routes!(flow::wait))
        .routes(routes!(flow::raise_event))
        .routes(routes!(flow::manage::cancel))
        .routes(routes!(flow::manage::terminate))
        .routes(routes!(flow::manage::suspend))
        .routes(routes!(flow::manage::resume))
        .routes(routes!(flow::read::history))
        .routes(routes!(flow::read::executions))
        .routes(routes!(flow::read::kv_all))
        .routes(routes!(flow::read::kv_one))
        .routes(routes!(flow::read::tree))
        .routes(routes!(health::health))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::openapi_document))
        .routes(routes!(health::docs))
        .routes(routes!(health::root))
        .split_for_parts()
}
