//! Routes with their documentation, and the OpenAPI document that is generated from it.

use axum::Router;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
pub(super) use utoipa_axum::routes;

use crate::state::AppState;

pub(super) type DocumentedRoutes = OpenApiRouter<AppState>;

/// The parts of the document that do not come from routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Wakeline",
        description = "Durable queues, orchestrations and webhooks on PostgreSQL or SQLite. \
                       Consumers are notified of new messages and do not poll."
    ),
    tags(
        (name = "queue", description = "Push, pop and settle messages"),
        (name = "queues", description = "Configure and inspect queues"),
        (name = "orchestrations",
            description = "Start, signal, inspect and control orchestrations"),
        (name = "webhooks", description = "Applications, endpoints, messages and deliveries"),
        (name = "events", description = "A simplified webhook API"),
        (name = "access", description = "API keys and the audit log"),
        (name = "operation", description = "Health, metrics and maintenance"),
    )
)]
struct DocumentHeader;

fn generate() -> utoipa::openapi::OpenApi {
    let documented = OpenApiRouter::with_openapi(DocumentHeader::openapi()).merge(super::routes());
    let (_, mut document): (Router<AppState>, _) = documented.split_for_parts();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    // OpenAPI has no wildcard parameters, so they are documented as ordinary ones.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    document.components.get_or_insert_default().add_security_scheme("apiKey", scheme);
    document
}

#[test]
fn the_openapi_document_is_the_one_in_the_tree() {
    let mut document = serde_json::to_string_pretty(&generate()).expect("the document is JSON");
    document.push('\n');
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os("WAKELINE_BLESS").is_some() {
        std::fs::write(path, &document).expect("written");
    }
    let committed = std::fs::read_to_string(path).expect("read");
    let differs = document.lines().zip(committed.lines()).position(|(new, old)| new != old);
    assert!(
        document == committed,
        "crates/wakeline-http/openapi.json is stale from line {} on; run: \
         cargo xtask bless openapi",
        differs.unwrap_or(document.lines().count().min(committed.lines().count())) + 1
    );
}
