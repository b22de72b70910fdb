//! The routes, and the router that is built from them.
//!
//! Only the unit tests of this crate generate the OpenAPI document from the routes. Generating it
//! in the server took 15 percent of the code of this crate and printed a constant.

mod access;
mod ack;
mod analytics;
mod configure;
mod dead;
mod flow;
mod groups;
mod health;
mod hook;
mod maintenance;
mod messages;
mod overview;
mod pop;
mod push;
mod resources;
mod status;
mod timers;
mod traces;
mod transaction;

#[cfg(test)]
mod document;
#[cfg(not(test))]
mod undocumented;

pub(crate) use hook::simple::DEFAULT_UID as DEFAULT_APPLICATION;

use axum::Router;
use axum::middleware;
use axum::routing::get;

#[cfg(test)]
use self::document::{DocumentedRoutes as Routes, routes};
#[cfg(not(test))]
use self::undocumented::{UndocumentedRoutes as Routes, routes};
use crate::access::guard;
use crate::cors::cors;
use crate::error::ApiError;
use crate::state::AppState;

/// Builds the router of the HTTP API, which works without a socket.
pub fn app(state: AppState) -> Router {
    let router = Router::from(routes())
        .route("/docs/", get(health::root))
        .fallback(|| async {
            ApiError::not_found("there is no such route: /docs lists all routes")
        })
        .layer(middleware::from_fn_with_state(state.clone(), guard));
    let router = if state.settings().cors_origins.is_empty() {
        router
    } else {
        router.layer(middleware::from_fn_with_state(state.clone(), cors))
    };
    router.with_state(state)
}

fn routes() -> Routes {
    Routes::new()
        .merge(queue_routes())
        .merge(inspection_routes())
        .merge(flow_routes())
        .merge(hook_routes())
        .merge(message_routes())
        .merge(simple_hook_routes())
        .merge(access_routes())
        .routes(routes!(maintenance::maintenance, maintenance::set_maintenance))
        .routes(routes!(maintenance::pause, maintenance::set_pause))
        .routes(routes!(health::health))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::openapi_document))
        .routes(routes!(health::docs))
        .routes(routes!(health::root))
}

/// API keys and the audit log.
fn access_routes() -> Routes {
    Routes::new()
        .routes(routes!(access::keys, access::create))
        .routes(routes!(access::revoke))
        .routes(routes!(access::rotate))
        .routes(routes!(access::audit))
}

fn queue_routes() -> Routes {
    Routes::new()
        .routes(routes!(push::push))
        .routes(routes!(pop::pop_filtered))
        .routes(routes!(pop::pop_queue))
        .routes(routes!(pop::pop_partition))
        .routes(routes!(ack::ack))
        .routes(routes!(ack::ack_batch))
        .routes(routes!(ack::extend))
        .routes(routes!(transaction::transaction))
        .routes(routes!(timers::timers))
        .routes(routes!(timers::list))
        .routes(routes!(timers::timer, timers::cancel))
        .routes(routes!(configure::configure))
        .routes(routes!(resources::queue, configure::patch_queue, configure::delete_queue))
        .routes(routes!(groups::groups))
        .routes(routes!(groups::lagging))
        .routes(routes!(groups::group, groups::delete_group))
        .routes(routes!(groups::seek))
        .routes(routes!(groups::seek_partition))
        .routes(routes!(groups::delete_group_of_queue))
        .routes(routes!(groups::subscription))
        .routes(routes!(dead::dead_letters, dead::purge))
        .routes(routes!(dead::redrive))
        .routes(routes!(dead::redrive_job, dead::cancel_redrive))
        .routes(routes!(dead::dead_letter, dead::purge_one))
        .routes(routes!(messages::messages))
        .routes(routes!(messages::message, messages::delete))
        .routes(routes!(messages::retry))
        .routes(routes!(messages::give_up))
        .routes(routes!(messages::clear))
        .routes(routes!(messages::delete_partition))
        .routes(routes!(messages::partitions))
        .routes(routes!(traces::add))
        .routes(routes!(traces::names))
        .routes(routes!(traces::by_name))
        .routes(routes!(traces::of_message))
}

/// Counts and statistics of queues and nodes.
fn inspection_routes() -> Routes {
    Routes::new()
        .routes(routes!(resources::queues))
        .routes(routes!(resources::depth))
        .routes(routes!(resources::namespaces))
        .routes(routes!(resources::tasks))
        .routes(routes!(status::queues))
        .routes(routes!(status::queue))
        .routes(routes!(status::messages))
        .routes(routes!(status::buffers))
        .routes(routes!(overview::overview))
        .routes(routes!(overview::status))
        .routes(routes!(analytics::analytics))
        .routes(routes!(analytics::queue_ops))
        .routes(routes!(analytics::queue_lag))
        .routes(routes!(analytics::queue_parked))
        .routes(routes!(analytics::retention))
        .routes(routes!(analytics::system_metrics))
        .routes(routes!(analytics::worker_metrics))
        .routes(routes!(analytics::postgres_stats))
        .routes(routes!(analytics::refresh))
        .routes(routes!(analytics::shared_state))
}

fn flow_routes() -> Routes {
    Routes::new()
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
        .routes(routes!(flow::mailbox::list))
        .routes(routes!(flow::mailbox::messages))
}

/// Applications, event types, and endpoints with their jobs and pull deliveries.
fn hook_routes() -> Routes {
    use hook::{application, endpoint, event_type, job, keys, message, operational, pull};
    Routes::new()
        .routes(routes!(application::list, application::create))
        .routes(routes!(
            application::get,
            application::put,
            application::patch,
            application::delete
        ))
        .routes(routes!(event_type::list, event_type::create))
        .routes(routes!(event_type::get, event_type::put, event_type::patch, event_type::delete))
        .routes(routes!(endpoint::list, endpoint::create))
        .routes(routes!(endpoint::get, endpoint::put, endpoint::patch, endpoint::delete))
        .routes(routes!(keys::secret))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::headers, keys::put_headers, keys::patch_headers))
        .routes(routes!(job::recover))
        .routes(routes!(job::replay_missing))
        .routes(routes!(job::bulk_replay))
        .routes(routes!(job::stats))
        .routes(routes!(job::ping))
        .routes(routes!(message::send_example))
        .routes(routes!(pull::pull))
        .routes(routes!(pull::ack))
        .routes(routes!(pull::nack))
        .routes(routes!(pull::extend))
        .routes(routes!(operational::list, operational::create))
        .routes(routes!(operational::get, operational::put, operational::delete))
        .routes(routes!(operational::secret))
        .routes(routes!(operational::rotate))
        .routes(routes!(operational::headers, operational::put_headers))
}

/// Webhook messages, attempts, deliveries and jobs.
fn message_routes() -> Routes {
    use hook::{attempt, delivery, job, message};
    Routes::new()
        .routes(routes!(message::list, message::create))
        .routes(routes!(message::precheck))
        .routes(routes!(message::get))
        .routes(routes!(message::expunge))
        .routes(routes!(attempt::by_endpoint))
        .routes(routes!(attempt::by_message))
        .routes(routes!(attempt::get))
        .routes(routes!(attempt::expunge))
        .routes(routes!(attempt::attempted_messages))
        .routes(routes!(attempt::attempted_destinations))
        .routes(routes!(delivery::list))
        .routes(routes!(delivery::resend))
        .routes(routes!(delivery::cancel))
        .routes(routes!(delivery::cancel_one))
        .routes(routes!(job::create))
        .routes(routes!(job::get))
        .routes(routes!(job::health))
}

/// The simplified webhook API.
fn simple_hook_routes() -> Routes {
    use hook::simple;
    Routes::new()
        .routes(routes!(simple::post_event))
        .routes(routes!(simple::event))
        .routes(routes!(simple::event_attempts))
        .routes(routes!(simple::subscribe, simple::subscriptions))
        .routes(routes!(simple::unsubscribe))
}
